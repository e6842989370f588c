"""Appending to and fetching from a HouseDesk, for the tests of Fetch."""

from __future__ import annotations

from typing import Any

from chronik.api import fetch
from chronik.wire.fetch import FetchPartition, FetchRequest
from tests.unit.api.house_context import Asked, HouseContext
from tests.unit.core.log.logs import batch_of
from tests.unit.wire.hot_requests import fetch_request

MAX_BYTES = 50_000_000


def put(
    context: HouseContext, *counts: int, partition: int = 0, topic: str = "orders", value: bytes = b"value"
) -> list[bytes]:
    """Append a batch of each of these sizes; returns their bytes as they stand in the log."""
    replica = context.house.replicas.leader(topic, partition)
    batches = [batch_of(count, value=value) for count in counts]
    for batch in batches:
        context.house.replicas.append(replica, batch, 1)
    return [bytes(batch) for batch in batches]


def get(
    context: HouseContext,
    *asked: tuple[int, int],
    version: int = 11,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MAX_BYTES,
    partition_max_bytes: int = 1_000_000,
    topic: str | bytes = "orders",
    leader_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[int, ...] = (),
    isolation_level: int = 0,
) -> Asked:
    """Fetch (partition, offset) pairs of a topic."""
    partitions = [
        FetchPartition(topic, partition, offset, partition_max_bytes, leader_epoch) for partition, offset in asked
    ]
    gone = [(topic, partition) for partition in forgotten]
    request = FetchRequest(-1, max_wait_ms, min_bytes, max_bytes, isolation_level, *session, partitions, gone)
    return context.ask(fetch, version, fetch_request(version, request))


def partitions_of(asked: Asked) -> dict[int, Any]:
    return {p.partition_index: p for topic in asked.response.responses for p in topic.partitions}


def records_of(asked: Asked, partition: int = 0) -> bytes:
    found = partitions_of(asked)[partition]
    assert found.error_code == 0
    return found.records or b""


def code_of(asked: Asked, partition: int = 0) -> int:
    found = partitions_of(asked)[partition]
    assert not found.records
    return int(found.error_code)
