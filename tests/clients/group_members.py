"""Members of one group, of several clients and both protocols, and a ledger of all that they own, read and commit.

Times are those of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from tests.clients.jvm import jars_of, java_command
from tests.clients.support import WAIT_SECONDS, needs

needs("kafka")

from kafka import KafkaConsumer  # noqa: E402
from kafka.consumer.subscription_state import ConsumerRebalanceListener  # noqa: E402
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor  # noqa: E402
from kafka.coordinator.assignors.range import RangePartitionAssignor  # noqa: E402
from kafka.errors import CommitFailedError, RebalanceInProgressError  # noqa: E402
from kafka.structs import OffsetAndMetadata, TopicPartition  # noqa: E402

RANGE, COOPERATIVE = "range", "cooperative-sticky"
JAVA_ASSIGNORS = {
    RANGE: "org.apache.kafka.clients.consumer.RangeAssignor",
    COOPERATIVE: "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
SOON = {"heartbeat.interval.ms": 300, "session.timeout.ms": 45_000}  # what happens does not happen by expiry


@dataclass
class Owning:
    """A partition is a member's from one time to another."""

    member: str
    since_ns: int
    until_ns: int | None = None


@dataclass
class Ledger:
    """What all members of the group told."""

    owned: dict[int, list[Owning]] = field(default_factory=dict)
    read: list[tuple[str, int, int, int]] = field(default_factory=list)  # member, time, partition, offset
    committed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by partition: time, position
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def assigned(self, member: str, at_ns: int, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                self.owned.setdefault(partition, []).append(Owning(member, at_ns))

    def gave_up(self, member: str, at_ns: int, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                for owning in self.owned.get(partition, []):
                    if owning.member == member and owning.until_ns is None:
                        owning.until_ns = at_ns

    def left(self, member: str, at_ns: int) -> None:
        self.gave_up(member, at_ns, list(self.owned))

    def was_read(self, member: str, at_ns: int, partition: int, offset: int) -> None:
        with self._lock:
            self.read.append((member, at_ns, partition, offset))

    def was_committed(self, at_ns: int, partition: int, position: int) -> None:
        with self._lock:
            self.committed.setdefault(partition, []).append((at_ns, position))

    def owners(self) -> dict[int, list[str]]:
        """Who has each partition now."""
        with self._lock:
            return {p: [one.member for one in those if one.until_ns is None] for p, those in self.owned.items()}

    def positions(self) -> dict[int, int]:
        with self._lock:
            return {partition: max(p for _, p in those) for partition, those in self.committed.items()}

    def check(self, sent: dict[int, int]) -> None:
        """No member failed; no partition was two members' at a time; every record was read; and none that had been
        committed before its reader was given the partition. `sent` has the records of each partition."""
        assert not self.failures
        for partition, those in self.owned.items():
            in_order = sorted(those, key=lambda one: one.since_ns)
            for earlier, later in itertools.pairwise(in_order):
                is_over = earlier.until_ns is not None and earlier.until_ns <= later.since_ns
                assert is_over, f"partition {partition} of two: {earlier}, {later}"
        for partition, count in sent.items():
            offsets = {offset for _, _, of, offset in self.read if of == partition}
            assert offsets == set(range(count)), f"partition {partition}: {len(offsets)} of {count} records"
        for member, at_ns, partition, offset in self.read:
            since_ns = max(
                one.since_ns for one in self.owned[partition] if one.member == member and one.since_ns <= at_ns
            )
            before = [position for then_ns, position in self.committed.get(partition, []) if then_ns < since_ns]
            assert offset >= max(before, default=0), (
                f"{member} read {offset} of {partition} again: {max(before)} is committed"
            )


class GroupMember(ABC):
    """One member, until `leave`."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self.ledger = ledger
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> GroupMember:
        self._thread.start()
        return self

    def leave(self) -> None:
        self._leaving.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), f"{self.name} did not leave"

    def _run(self) -> None:
        try:
            self._consume()
        except Exception as failure:
            self.ledger.failures.append(f"{self.name}: {failure!r}")
        finally:
            self.ledger.left(self.name, time.monotonic_ns())

    @abstractmethod
    def _consume(self) -> None:
        """Until it is to leave."""


class LibrdkafkaMember(GroupMember):
    """confluent-kafka, of either protocol."""

    def __init__(self, name: str, ledger: Ledger, bootstrap: str, topic: str, assignor: str | None) -> None:
        super().__init__(name, ledger)
        self._topic = topic
        protocol: dict[str, Any] = {"group.protocol": "consumer"}
        if assignor is not None:
            protocol = {"group.protocol": "classic", "partition.assignment.strategy": assignor, **SOON}
        self._is_incremental = assignor != RANGE
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            **protocol,
        }

    def _consume(self) -> None:
        consumer = LibrdkafkaConsumer(self._settings)
        consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._gave_up, on_lost=self._gave_up)
        try:
            while not self._leaving.is_set():
                positions: dict[int, int] = {}
                for message in consumer.consume(500, timeout=0.1):
                    error = message.error()
                    if error is not None:
                        raise KafkaException(error)
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    self.ledger.was_read(self.name, time.monotonic_ns(), partition, offset)
                    positions[partition] = offset + 1
                if positions:
                    self._commit(consumer, positions)
        finally:
            consumer.close()

    def _commit(self, consumer: LibrdkafkaConsumer, positions: dict[int, int]) -> None:
        offsets = [LibrdkafkaPartition(self._topic, partition, position) for partition, position in positions.items()]
        moved_on = (
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.STALE_MEMBER_EPOCH,
            KafkaError._ASSIGNMENT_LOST,
        )
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as failure:
            if failure.args[0].code() not in moved_on:
                raise
            return
        for one in done:
            if one.error is None:
                self.ledger.was_committed(time.monotonic_ns(), one.partition, one.offset)

    def _assigned(self, consumer: LibrdkafkaConsumer, partitions: list[LibrdkafkaPartition]) -> None:
        self.ledger.assigned(self.name, time.monotonic_ns(), [one.partition for one in partitions])

    def _gave_up(self, consumer: LibrdkafkaConsumer, partitions: list[LibrdkafkaPartition]) -> None:
        self.ledger.gave_up(self.name, time.monotonic_ns(), [one.partition for one in partitions])


class KafkaPythonMember(GroupMember, ConsumerRebalanceListener):
    """kafka-python, which speaks the classic protocol."""

    def __init__(self, name: str, ledger: Ledger, bootstrap: str, topic: str, assignor: str) -> None:
        super().__init__(name, ledger)
        self._topic = topic
        assignors = {RANGE: RangePartitionAssignor, COOPERATIVE: CooperativeStickyAssignor}
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": topic,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "partition_assignment_strategy": (assignors[assignor],),
            **{key.replace(".", "_"): value for key, value in SOON.items()},
        }

    def _consume(self) -> None:
        consumer = KafkaConsumer(**self._settings)
        consumer.subscribe([self._topic], listener=self)
        try:
            while not self._leaving.is_set():
                positions: dict[TopicPartition, OffsetAndMetadata] = {}
                for partition, records in consumer.poll(timeout_ms=100).items():
                    for record in records:
                        self.ledger.was_read(self.name, time.monotonic_ns(), partition.partition, record.offset)
                    positions[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
                if positions:
                    self._commit(consumer, positions)
        finally:
            consumer.close()

    def _commit(self, consumer: KafkaConsumer, positions: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            consumer.commit(positions)
        except (CommitFailedError, RebalanceInProgressError):
            return
        for partition, position in positions.items():
            self.ledger.was_committed(time.monotonic_ns(), partition.partition, position.offset)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.ledger.assigned(self.name, time.monotonic_ns(), [one.partition for one in assigned])

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.ledger.gave_up(self.name, time.monotonic_ns(), [one.partition for one in revoked])


class JavaMember(GroupMember):
    """Kafka's own client in a process of its own, of either protocol."""

    def __init__(
        self, name: str, ledger: Ledger, bootstrap: str, topic: str, assignor: str | None, classes: Path
    ) -> None:
        super().__init__(name, ledger)
        protocol: dict[str, Any] = {"group.protocol": "consumer"}
        if assignor is not None:
            strategy = JAVA_ASSIGNORS[assignor]
            protocol = {"group.protocol": "classic", "partition.assignment.strategy": strategy, **SOON}
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **protocol,
        }
        command = java_command(jars_of("client"), "GroupMember", folder=classes)
        self._command = [*command, topic, *(f"{key}={value}" for key, value in settings.items())]

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        super().leave()

    def start(self) -> GroupMember:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return super().start()

    def _consume(self) -> None:
        assert self._process.stdout is not None
        with self._process:
            for line in self._process.stdout:
                event, at_ns, about = line.rstrip("\n").split(" ", 2)
                self._tell(event, int(at_ns), about)

    def _tell(self, event: str, at_ns: int, about: str) -> None:
        numbers = [int(number) for number in about.split(",") if number] if event in ("assigned", "revoked") else []
        match event:
            case "assigned":
                self.ledger.assigned(self.name, at_ns, numbers)
            case "revoked":
                self.ledger.gave_up(self.name, at_ns, numbers)
            case "read":
                partition, _, offset = about.partition(":")
                self.ledger.was_read(self.name, at_ns, int(partition), int(offset))
            case "committed":
                partition, _, offset = about.partition(":")
                self.ledger.was_committed(at_ns, int(partition), int(offset))
            case "left":
                self.ledger.left(self.name, at_ns)
            case _:
                self.ledger.failures.append(f"{self.name}: {about}")
