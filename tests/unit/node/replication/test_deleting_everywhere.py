"""DeleteRecords among nodes: what was said to be gone does not come back with another leader."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any, cast

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

from chronik.api import delete_records
from chronik.api.context import Caller
from chronik.core.errors import Code
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import Checkpoints
from tests.unit.node.copies import TOPIC, Copies, CopyNode, pass_time, with_copies
from tests.unit.node.fakes import NOW_MS


@with_copies()
async def test_records_are_said_to_be_deleted_when_no_copy_in_sync_has_them_any_more(copies: Copies) -> None:
    copies[1].produce(b"a", b"b")
    await pass_time(300)
    copies.network.cut |= {(3, 1), (1, 3)}

    asked = asyncio.ensure_future(deleted(copies[1], 1, timeout_ms=60_000))
    await pass_time(2_000)
    assert (copies[2].offsets()[0], asked.done()) == (1, False)

    copies.network.cut.clear()
    await pass_time(2_000)
    assert (copies[3].offsets()[0], asked.done()) == (1, True)
    assert asked.result() == (Code.NONE, 1)


@with_copies()
async def test_a_deletion_that_a_copy_does_not_hear_of_in_time_says_so(copies: Copies) -> None:
    copies[1].produce(b"a", b"b")
    await pass_time(300)
    copies.network.cut |= {(3, 1), (1, 3)}

    assert await deleted(copies[1], 1, timeout_ms=500) == (Code.REQUEST_TIMED_OUT, 0)

    copies.change(isr=(1, 2))  # no node counts on it any more
    assert await deleted(copies[1], 1, timeout_ms=500) == (Code.NONE, 1)


@with_copies()
async def test_a_leader_that_is_alone_in_sync_deletes_at_once(copies: Copies) -> None:
    copies[1].produce(b"a", b"b")
    await pass_time(300)
    copies.network.cut |= {(2, 1), (1, 2), (3, 1), (1, 3)}
    copies.change(isr=(1,))

    assert await deleted(copies[1], 1, timeout_ms=500) == (Code.NONE, 1)


@with_copies()
async def test_a_deletion_under_way_when_another_leads_is_refused(copies: Copies) -> None:
    copies[1].produce(b"a", b"b")
    await pass_time(300)
    copies.network.cut |= {(3, 1), (1, 3)}
    asked = asyncio.ensure_future(deleted(copies[1], 1, timeout_ms=60_000))
    await pass_time(100)

    copies.change(leader=2)
    await pass_time(10)

    assert asked.result() == (Code.NOT_LEADER_OR_FOLLOWER, -1)


@with_copies(min_insync_replicas="2")
async def test_with_fewer_in_sync_than_wanted_nothing_is_said_to_be_gone(copies: Copies) -> None:
    """With fewer in sync than wanted who left may lead so nothing is said to be gone. KIP-966: an eligible leader has
    all that is safe, and need not have heard of any deletion."""
    copies[1].produce(b"a", b"b")
    await pass_time(300)
    copies.network.cut |= {(2, 1), (1, 2), (3, 1), (1, 3)}
    copies.change(isr=(1,), eligible_leader_replicas=(2, 3))

    assert await deleted(copies[1], 1, timeout_ms=500) == (Code.REQUEST_TIMED_OUT, -1)


@with_copies()
async def test_a_copy_says_what_is_gone_only_when_a_crash_does_not_bring_it_back(copies: Copies) -> None:
    copies[1].produce(b"a", b"b")
    await pass_time(300)

    assert await deleted(copies[1], 1, timeout_ms=60_000) == (Code.NONE, 1)

    for node_id in (2, 3):
        on_disk = Checkpoints(cast(Any, copies[node_id].files)).starts
        assert on_disk == {TopicPartition(TOPIC, 0): 1}


@with_copies(log_retention_ms="1000")
async def test_a_follower_whose_own_retention_was_quicker_tells_its_leader(copies: Copies) -> None:
    """A leader that waits for it to let go would wait for ever."""
    copies[1].produce(b"one", b"two")
    await pass_time(3000)
    follower, leader = copies[2], copies[1].replica()

    assert follower.replicas.expire(follower.replica(), NOW_MS + 3000)
    await pass_time(50)

    assert leader.in_sync is not None
    assert leader.in_sync.followers[2].log_start == 2


async def deleted(node: CopyNode, offset: int, *, timeout_ms: int) -> tuple[Code, int]:
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=TOPIC, partitions=(part,)),),
        timeout=datetime.timedelta(milliseconds=timeout_ms),
    )
    answer = await delete_records.handle(request, Caller("test", "10.0.0.7", 2, 1), node.context)
    [result] = answer.topics[0].partitions
    return result.error_code, result.low_watermark
