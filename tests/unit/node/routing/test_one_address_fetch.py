"""Fetches where all nodes share an address: to the leaders, without sessions, put together."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from chronik.api.call import Peer
from chronik.core.errors import Code
from chronik.node.net.connection import Slot
from chronik.node.net.peers import Unreachable
from chronik.wire import fetch as wire_fetch
from chronik.wire.fetch import FetchAnswer, FetchPartition, FetchRequest
from chronik.wire.versions import FETCH
from tests.unit.core.log.logs import batch_of
from tests.unit.node.sent_on import orders, send
from tests.unit.node.town import CORRELATION_ID, SECOND, THIRD, Sent, Town, in_town, response_in
from tests.unit.wire.hot_requests import fetch_request


def fetch(
    town: Town,
    *partitions: int,
    version: int = 12,
    session: tuple[int, int] = (0, 0),
    max_wait_ms: int = 500,
    peer: Peer | None = None,
) -> Slot:
    topic: Any = town.image.topics["orders"].id if version >= wire_fetch.TOPIC_IDS_FROM else "orders"
    asked = [FetchPartition(topic, number, 0, 100_000, -1) for number in partitions]
    request = FetchRequest(-1, max_wait_ms, 1, 1_000_000, 0, *session, asked, [])
    flexible = b"\x00" if version >= wire_fetch.FLEXIBLE_FROM else b""
    head = struct.pack(">hhih", FETCH, version, CORRELATION_ID, 4) + b"test" + flexible
    return town.start(head + fetch_request(version, request), peer)


def give(sent: Sent, records: bytes = b"") -> None:
    """What the leader has of each partition that it was asked for."""
    request = wire_fetch.parse(sent.frame, sent.header.body, sent.header.version)
    answers = [
        FetchAnswer(one.topic, one.partition, 0, 10 * one.partition, 10 * one.partition, 0, records)
        for one in request.partitions
    ]
    buffers = wire_fetch.encode(sent.header.version, sent.header.correlation_id, 0, 0, answers)
    sent.reply(b"".join(bytes(piece) for piece in buffers))


def fetched(slot: Slot, version: int = 12) -> list[tuple[int, int, int]]:
    response = response_in(slot, FETCH, version)
    assert getattr(response, "session_id", 0) == 0
    return [(p.partition_index, p.error_code, p.high_watermark) for t in response.responses for p in t.partitions]


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_of_one_leader_goes_there_without_a_session(version: int) -> None:
    @in_town(one_address=True)
    async def test(town: Town) -> None:
        slot = fetch(town, 1, 2, version=version)
        await town.settle()
        (sent,) = town.peers.sent
        request = wire_fetch.parse(sent.frame, sent.header.body, version)
        assert (sent.node_id, request.session_id, request.session_epoch) == (SECOND, 0, -1)
        assert (request.max_wait_ms, [one.partition for one in request.partitions]) == (500, [1, 2])

        give(sent, bytes(batch_of()))
        await town.settle()

        assert fetched(slot, version) == [(1, 0, 10), (2, 0, 20)]

    test()


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
def test_a_fetch_of_several_leaders_is_put_together(version: int) -> None:
    """A fetch of several leaders is put together and nobody waits long for another."""

    @in_town(one_address=True)
    async def test(town: Town) -> None:
        send(town, orders(0))
        await town.settle()
        slot = fetch(town, 3, 0, 1, version=version)
        await town.settle()
        assert [sent.node_id for sent in town.peers.sent] == [THIRD, SECOND]
        for sent in town.peers.sent:
            request = wire_fetch.parse(sent.frame, sent.header.body, version)
            assert (request.max_wait_ms, request.session_id, request.session_epoch) == (100, 0, -1)
            give(sent, bytes(batch_of()))
        await town.settle()

        assert sorted(fetched(slot, version)) == [(0, 0, 1), (1, 0, 10), (3, 0, 30)]

    test()


@in_town(one_address=True)
async def test_a_fetch_of_what_is_led_here_is_answered_here_without_a_session(town: Town) -> None:
    send(town, orders(0))
    await town.settle()

    slot = fetch(town, 0)
    await town.settle()

    assert fetched(slot) == [(0, 0, 1)]
    assert town.peers.sent == []


@in_town(one_address=True)
async def test_a_session_made_elsewhere_is_not_known(town: Town) -> None:
    slot = fetch(town, session=(77, 3))

    assert response_in(slot, FETCH, 12).error_code == Code.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("partitions", [(1, 2), (0, 1, 3)])
def test_a_leader_that_is_not_reached_is_to_be_looked_for_again(partitions: tuple[int, ...]) -> None:
    @in_town(one_address=True)
    async def test(town: Town) -> None:
        slot = fetch(town, *partitions)
        await town.settle()
        for sent in town.peers.sent:
            sent.fail(Unreachable("gone"))
        town.house.loop.advance(1000)
        await town.settle()

        assert {code for _, code, _ in fetched(slot)} == {Code.NOT_LEADER_OR_FOLLOWER}

    test()


@in_town(one_address=True)
async def test_a_node_that_fetches_is_answered_here(town: Town) -> None:
    node = Peer(7, "10.0.0.8")
    node.is_node = True

    fetch(town, 1, peer=node)
    await town.settle()

    assert town.peers.sent == []
