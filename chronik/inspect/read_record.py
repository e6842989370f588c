"""The record itself, as a consumer gets it; and where none comes, what that says and what it does not."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, cast

from chronik.client.connecting import client_settings, plain_errors
from chronik.inspect.record_format import ShownRecord

READ_TIMEOUT_S = 5.0
POLL_S = 0.5


class RecordReading(NamedTuple):
    """What reading from an offset on came to. Without a record, either there is none at that offset, since a later one
    came next or the end of the log; or no node knows, and `problem` says why."""

    record: ShownRecord | None = None
    is_passed_over: bool = False
    problem: str | None = None


def read(bootstrap: str, topic: str, partition: int, offset: int, *, is_committed_only: bool = False) -> RecordReading:
    """Of transactions only what is committed, if that is wanted; else all there is."""
    from confluent_kafka import Consumer, TopicPartition

    settings = client_settings(bootstrap) | {
        "group.id": "chronik-cli",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "isolation.level": "read_committed" if is_committed_only else "read_uncommitted",
    }
    with plain_errors(bootstrap):
        consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        return reading_of(consumer, topic, partition, offset)
    finally:
        consumer.close()


def reading_of(
    consumer: Any, topic: str, partition: int, offset: int, timeout_s: float = READ_TIMEOUT_S
) -> RecordReading:
    """From a consumer that begins at that offset."""
    from confluent_kafka import KafkaError

    deadline = time.monotonic() + timeout_s
    problem = f"nothing came in {timeout_s:g} s"
    while (left_s := deadline - time.monotonic()) > 0:
        found = consumer.poll(min(left_s, POLL_S))
        if found is None:
            continue
        error = found.error()
        is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not is_end:
            problem = str(error.str())
            if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                continue  # the library tries again by itself
            return RecordReading(problem=problem)
        if found.offset() > offset:
            return RecordReading(is_passed_over=True)
        if found.offset() < offset:
            return RecordReading(problem=f"asked for offset {offset}, something was given at {found.offset()}")
        if is_end:
            return RecordReading(problem="the log ends there now")
        return RecordReading(_record(found, topic, partition, offset))
    return RecordReading(problem=problem)


def _record(found: Any, topic: str, partition: int, offset: int) -> ShownRecord:
    kind, timestamp_ms = found.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", found.headers() or [])
    return ShownRecord(topic, partition, offset, timestamp_ms if kind else None, found.key(), found.value(), headers)
