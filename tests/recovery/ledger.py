"""What producers were told, and what the log then holds: the two must agree."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from chronik.core.errors import Corrupt
from chronik.core.records.payload import walk

Place = tuple[int, int]
"""Partition and offset."""
TIMEOUT_S = 60.0
TRY_S = 3.0  # librdkafka does not look for another leader while it waits for this one


@dataclass
class Ledger:
    """Every acknowledgement of one topic, as it came."""

    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    given_twice: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, partition: int, offset: int, payload: bytes) -> None:
        with self._lock:
            before = self.acknowledged.setdefault((partition, offset), payload)
        if before != payload:
            self.given_twice.append(f"partition {partition} offset {offset}: {before!r} and {payload!r}")


def end_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Where each partition ends for consumers: its high watermark. Asked again while a leader is being looked for."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "log_level": 0})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TRY_S)[1]
                for partition in range(partitions)
            ]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        finally:
            consumer.close()


def consume_all(bootstrap: str, topic: str, partitions: int, start_offset: int = 0) -> dict[Place, bytes]:
    """Every record a consumer is given, from the start of the topic to its end."""
    ends = end_offsets(bootstrap, topic, partitions)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False})
    found: dict[Place, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, start_offset) for partition in range(partitions)])
        missing = sum(end - start_offset for end in ends)
        while len(found) < missing:
            messages = consumer.consume(min(1000, missing - len(found)), timeout=TIMEOUT_S)
            assert messages, f"{len(found)} of {missing} records came, then none for {TIMEOUT_S} s"
            for message in messages:
                assert message.error() is None, message.error()
                place = (message.partition() or 0, message.offset() or 0)
                assert place not in found, f"{place} was delivered twice"
                found[place] = bytes(message.value() or b"")
    finally:
        consumer.close()
    return found


def send(bootstrap: str, topic: str, *values: bytes) -> list[int]:
    """Produce to partition 0, each value in a batch of its own. Returns the offsets they got."""
    offsets: list[int] = []

    def told(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=told)
        assert producer.flush(TIMEOUT_S) == 0
    return offsets


def check_delivered(ledger: Ledger, delivered: Mapping[Place, bytes], topic: str, *data_dirs: str) -> None:
    """Nothing acknowledged is missing or different; if it is, say whether a disk has it."""
    missing = {place: payload for place, payload in ledger.acknowledged.items() if delivered.get(place) != payload}
    if missing:
        disks = {data_dir: records_on_disk(data_dir, topic) for data_dir in data_dirs}

        def where(place: Place, payload: bytes) -> str:
            found = [data_dir for data_dir, values in disks.items() if payload in values.get(place[0], ())]
            return f"not delivered, on disk in {', '.join(found)}" if found else "lost on disk"

        told = [
            f"{place}: acknowledged {payload!r}, delivered {delivered.get(place)!r}, {where(place, payload)}"
            for place, payload in sorted(missing.items())[:20]
        ]
        raise AssertionError(
            f"{len(missing)} of {len(ledger.acknowledged)} acknowledged records are gone:\n" + "\n".join(told)
        )
    assert ledger.given_twice == []


def check_dense(delivered: Iterable[Place]) -> None:
    """Every offset from 0 up is there."""
    by_partition: dict[int, list[int]] = defaultdict(list)
    for partition, offset in delivered:
        by_partition[partition].append(offset)
    for partition, offsets in by_partition.items():
        assert sorted(offsets) == list(range(len(offsets))), f"partition {partition} has holes"


def records_on_disk(data_dir: str, topic: str) -> dict[int, set[bytes]]:
    """The values in the segment files, read without the node."""
    found: dict[int, set[bytes]] = defaultdict(set)
    for path in sorted(Path(data_dir).glob(f"{topic}-*/*.log")):
        partition = int(path.parent.name.rpartition("-")[2])
        try:
            for record in walk(path.read_bytes()):
                found[partition].add(bytes(record.value or b""))
        except Corrupt:
            continue  # as far as it can be read
    return found
