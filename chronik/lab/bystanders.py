"""Clients and topics beside the writer and the reader that are well, and look ill to who is not careful: a slow
consumer, one that waits at an empty topic, a group without members, a topic that is compacted while it is in use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

from chronik.lab.clients import close, create_topic, settings_of

EMPTY, COMPACTED = "lab-empty", "lab-compacted"
SLOW_GROUP, IDLE_GROUP, WAITING_GROUP, COMPACTED_GROUP = "lab-slow", "lab-idle", "lab-waiting", "lab-compacted"

# Some 60 records a second of the 600 that are written: it falls ever further behind, and always asks again in time.
SLOW_RECORDS, SLOW_PAUSE_S = 30, 0.5
SLOW_FETCHING = {"queued.min.messages": 1, "fetch.message.max.bytes": 2_000}
POLL_S = 0.1
KEYS = 20
WRITE_EVERY_S = 0.02
SMALL_SEGMENTS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
ANSWER_S = 20.0


class Bystanders:
    """`topic` is the one that the others write to."""

    def __init__(self, bootstrap: str, topic: str, stopping: threading.Event) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._stopping = stopping

    def works(self) -> list[Callable[[], None]]:
        """What each does, in a thread of its own, until it is to stop."""
        return [self._read_slowly, self._wait_for_nothing, self._write_keys, self._read_keys]

    def prepare(self) -> None:
        create_topic(self._bootstrap, EMPTY)
        create_topic(self._bootstrap, COMPACTED, SMALL_SEGMENTS)
        self._leave_a_group()

    def _leave_a_group(self) -> None:
        """It has committed once, and never comes back: its lag grows, and that is no fault."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(settings_of(self._bootstrap, "chronik-cli"))
        committed = ConsumerGroupTopicPartitions(IDLE_GROUP, [TopicPartition(self._topic, 0, 0)])
        for done in admin.alter_consumer_group_offsets([committed]).values():
            done.result(ANSWER_S)

    def _read_slowly(self) -> None:
        consumer = self._member(SLOW_GROUP, self._topic, SLOW_FETCHING)
        while not self._stopping.wait(SLOW_PAUSE_S):
            consumer.consume(SLOW_RECORDS, POLL_S)
        close(consumer)

    def _wait_for_nothing(self) -> None:
        self._read(WAITING_GROUP, EMPTY)

    def _read_keys(self) -> None:
        self._read(COMPACTED_GROUP, COMPACTED)

    def _read(self, group: str, topic: str) -> None:
        consumer = self._member(group, topic, {})
        while not self._stopping.is_set():
            consumer.consume(500, POLL_S)
        close(consumer)

    def _write_keys(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({**settings_of(self._bootstrap, "lab-key-writer"), "acks": "all"})
        for number in count():
            if self._stopping.wait(WRITE_EVERY_S):
                break
            producer.produce(COMPACTED, b"x" * 200, b"key %d" % (number % KEYS))
            producer.poll(0)
        producer.flush(1.0)

    def _member(self, group: str, topic: str, more: dict[str, Any]) -> Any:
        from confluent_kafka import Consumer

        own = {"group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 1_000, **more}
        consumer = Consumer(settings_of(self._bootstrap, f"{group}-reader") | own)
        consumer.subscribe([topic])
        return consumer
