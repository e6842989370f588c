"""A fetch in the name of a follower counts as its progress only where nothing speaks against it (F46)."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.api import fetch
from chronik.api.context import Caller
from chronik.core.errors import Code
from chronik.wire import follower_fetch as wire
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.framing import read_header
from chronik.wire.versions import node_id_of, node_name
from tests.unit.api.calls import call_of
from tests.unit.node.copies import TOPIC_ID, Copies, CopyNode, pass_time, with_copies

SOUND = FetchPartition(TOPIC_ID, 0, 0, 10**6, 0, -1, 0)


def asks(
    node: CopyNode, part: FetchPartition, *, replica_id: int = 3, broker_epoch: int = 13, node_id: int = 3
) -> wire.FollowerFetched:
    """A fetch of one partition in the name of a replica, from the connection of a node (-1: of a client)."""
    request = FetchRequest(replica_id, 0, 1, 10**7, 0, 0, -1, [part], [], replica_epoch=broker_epoch)
    frame = wire.encode(9, "test", request)
    header = read_header(frame)
    answers: list[Any] = []
    caller = Caller("test", "10.0.0.7", header.version, 1, node_id >= 0, node_id)
    fetch.start(call_of(frame, header, caller, answers.append), node.context)
    ((*pieces,),) = answers
    return wire.parse(memoryview(b"".join(bytes(piece) for piece in pieces)[4:]))


async def without_followers(copies: Copies, after_ms: int = 50) -> CopyNode:
    """A leader with a batch that its followers do not have."""
    await pass_time(after_ms)
    for node_id in (2, 3):
        await copies.stop(node_id)
    copies[1].produce(b"one")
    return copies[1]


def progress(node: CopyNode) -> tuple[int, int, int]:
    in_sync = node.replica(0).in_sync
    assert in_sync is not None
    follower = in_sync.followers[3]
    return follower.durable_end_offset, follower.broker_epoch, follower.log_start


@with_copies()
async def test_what_speaks_against_it_is_refused_and_does_not_count(copies: Copies) -> None:
    leader = await without_followers(copies)
    before = progress(leader)
    has_all = SOUND._replace(fetch_offset=1, last_fetched_epoch=0)

    for code, claim in (
        (Code.CLUSTER_AUTHORIZATION_FAILED, {"node_id": -1}),
        (Code.CLUSTER_AUTHORIZATION_FAILED, {"node_id": 2}),
        (Code.STALE_BROKER_EPOCH, {"broker_epoch": 12}),
        (Code.STALE_BROKER_EPOCH, {"broker_epoch": 14}),
        (Code.STALE_BROKER_EPOCH, {"broker_epoch": 2**63 - 1}),
        (Code.STALE_BROKER_EPOCH, {"replica_id": 77, "node_id": 77}),
    ):
        assert asks(leader, has_all, **claim).error is code, claim
    for wrong in (
        has_all._replace(fetch_offset=2),
        has_all._replace(fetch_offset=2**63 - 1),
        has_all._replace(fetch_offset=-1),
        has_all._replace(leader_epoch=-1),
        has_all._replace(leader_epoch=1),
        has_all._replace(leader_epoch=-5),
        has_all._replace(last_fetched_epoch=7),
        has_all._replace(last_fetched_epoch=-7),
    ):
        (part,) = asks(leader, wrong).partitions
        assert part.error is not Code.NONE or part.diverging is not None, wrong

    assert progress(leader) == before
    assert leader.offsets() == (0, 0, 1)
    assert set(leader.context.fetching.sessions.followers) <= {2, 3}


@with_copies()
async def test_one_that_has_not_registered_yet_reads_and_does_not_count(copies: Copies) -> None:
    leader = await without_followers(copies, after_ms=0)
    before = progress(leader)
    assert before[0] == -1, "not heard of yet"

    (part,) = asks(leader, SOUND, broker_epoch=-1).partitions

    assert part.records
    assert progress(leader) == before


@with_copies()
async def test_where_its_log_begins_is_within_the_leaders(copies: Copies) -> None:
    leader = await without_followers(copies)
    before = progress(leader)[2]

    for log_start in (-1, -(2**63), 2, 2**63 - 1):
        asks(leader, SOUND._replace(log_start_offset=log_start))

    assert progress(leader)[2] == before


@pytest.mark.parametrize(
    ("name", "node_id"),
    [(node_name(7), 7), ("node-2147483647", 2**31 - 1), ("node-", -1), ("node--1", -1), ("7", -1), ("node-²", -1)],
)
def test_a_node_is_known_by_its_name(name: str, node_id: int) -> None:
    assert node_id_of(name) == node_id


def test_nobody_is_another_for_a_large_number() -> None:
    assert node_id_of("node-" + "9" * 5000) == -1
