"""Every acknowledged write is on the disk: Chronik's default; Kafka's `log.flush.interval.messages=1`."""

from __future__ import annotations

from functools import partial

from tests.bench.row import Bench, Case, Figure, Row, Samples, at_least, one_line
from tests.bench.rows import one_record
from tests.bench.rows.throughput import stream


def produce(bench: Bench, value_bytes: int, partitions: int) -> Samples:
    lines = stream(bench, "", value_bytes, partitions, {"produce": "produce"}, durability="sync")
    (figures,) = lines.values()
    return figures


def _case(size: str, value_bytes: int, partitions: int) -> Case:
    measure = partial(produce, value_bytes=value_bytes, partitions=partitions)
    return one_line(f"librdkafka, {size} x {partitions}", measure, is_quick=False)


ROW = Row(
    "synced",
    "Every acknowledged write synced to disk, acks=1: librdkafka (value size x partitions), and one-record requests",
    (Figure("messages_s", "msg/s", ratio_goal=at_least(3.0), moonshot=at_least(10.0)),),
    (
        _case("1 KB", 1_000, 1),
        _case("1 KB", 1_000, 12),
        one_record.case(1, "sync", is_quick=False),
        one_record.case(100, "sync"),
    ),
    code="B6",
)
