"""Batches that are sent to a node of the town, and what becomes of them; for tests of forwarding."""

from __future__ import annotations

import asyncio
import struct

from chronik.api.call import Peer
from chronik.core.errors import Code
from chronik.node.net.connection import Slot
from chronik.wire import produce as wire
from chronik.wire.produce import PartitionAnswer, ProduceRequest
from tests.unit.core.log.logs import batch_of
from tests.unit.node.town import CORRELATION_ID, Sent, Town, response_in, until
from tests.unit.wire.hot_requests import Topics, produce_request

PRODUCE = 0
ACKS_ALL = -1


def head(version: int, client_id: str = "test") -> bytes:
    tags = b"\x00" if version >= 9 else b""
    return struct.pack(">hhih", PRODUCE, version, CORRELATION_ID, len(client_id)) + client_id.encode() + tags


def send(
    town: Town,
    topics: Topics,
    *,
    acks: int = ACKS_ALL,
    version: int = 12,
    timeout_ms: int = 30_000,
    peer: Peer | None = None,
) -> Slot:
    return town.start(head(version) + produce_request(version, None, acks, timeout_ms, topics), peer)


def orders(*partitions: int) -> Topics:
    return [("orders", [(number, bytes(batch_of())) for number in partitions])]


def request_in(sent: Sent) -> ProduceRequest:
    return wire.parse(sent.frame, sent.header.body, sent.header.version)


def partitions_in(sent: Sent) -> list[int]:
    return [number for _, partitions in request_in(sent).topics for number, _ in partitions]


def take(sent: Sent, first_offset: int = 100, code: Code = Code.NONE) -> None:
    """The leader's answer: partition n was given the offset `first_offset + n`."""
    topics = [
        (topic, [PartitionAnswer(number, code, first_offset + number, -1, 0) for number, _ in partitions])
        for topic, partitions in request_in(sent).topics
    ]
    sent.reply(wire.encode(sent.header.version, sent.header.correlation_id, topics))


async def passed(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await until(lambda: loop.time() > begun + seconds)


def outcomes(slot: Slot, version: int = 12) -> list[tuple[int, int, int]]:
    """Partition, error code and base offset, in order."""
    response = response_in(slot, PRODUCE, version)
    return [(p.index, p.error_code, p.base_offset) for topic in response.responses for p in topic.partition_responses]
