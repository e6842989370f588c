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

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import ConsumerGroupType, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import AdminClient

from tests.clients.jvm import jars_of, java_command
from tests.clients.support import KAFKA_PYTHON_POLL_MS, WAIT_SECONDS, needs, wait_until

needs("kafka")

from kafka import KafkaConsumer  # noqa: E402
from kafka.consumer.subscription_state import ConsumerRebalanceListener  # noqa: E402
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor  # noqa: E402
from kafka.coordinator.assignors.range import RangePartitionAssignor  # noqa: E402
from kafka.errors import CommitFailedError, RebalanceInProgressError  # noqa: E402
from kafka.structs import OffsetAndMetadata, TopicPartition  # noqa: E402

READ_MEANWHILE = 40  # records of each partition, between two steps: a group consumes while it moves
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
        self._to_commit: dict[int, int] = {}  # by partition, up to where it has read
        protocol: dict[str, Any] = {"group.protocol": "consumer"}
        if assignor is not None:
            protocol = {"group.protocol": "classic", "partition.assignment.strategy": assignor, **SOON}
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
                for message in consumer.consume(500, timeout=0.1):
                    error = message.error()
                    if error is not None:
                        if not error.retriable():
                            raise KafkaException(error)
                        continue
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    self.ledger.was_read(self.name, time.monotonic_ns(), partition, offset)
                    self._to_commit[partition] = offset + 1
                if self._to_commit:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: LibrdkafkaConsumer) -> None:
        """What fails for now is tried again with the next, as long as it has the partition."""
        offsets = [LibrdkafkaPartition(self._topic, partition, at) for partition, at in self._to_commit.items()]
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
            if failure.args[0].code() not in moved_on and not failure.args[0].retriable():
                raise
            return
        for one in done:
            if one.error is None:
                self.ledger.was_committed(time.monotonic_ns(), one.partition, one.offset)
                self._to_commit.pop(one.partition, None)

    def _assigned(self, consumer: LibrdkafkaConsumer, partitions: list[LibrdkafkaPartition]) -> None:
        self.ledger.assigned(self.name, time.monotonic_ns(), [one.partition for one in partitions])

    def _gave_up(self, consumer: LibrdkafkaConsumer, partitions: list[LibrdkafkaPartition]) -> None:
        for one in partitions:
            self._to_commit.pop(one.partition, None)
        self.ledger.gave_up(self.name, time.monotonic_ns(), [one.partition for one in partitions])


class KafkaPythonMember(GroupMember, ConsumerRebalanceListener):  # type: ignore[misc]  # without types
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
                for partition, records in consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS).items():
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


class Load:
    """Produces to every partition until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        self._topic = topic
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.rounds = 0

    def _run(self) -> None:
        while not self._stopped.wait(0.01):
            for partition in range(self._partitions):
                self._producer.produce(self._topic, b"%d" % self.rounds, partition=partition)
            self._producer.poll(0)
            self.rounds += 1

    def stop(self) -> dict[int, int]:
        """How many records each partition has."""
        self._stopped.set()
        self._thread.join(WAIT_SECONDS)
        assert self._producer.flush(WAIT_SECONDS) == 0
        return dict.fromkeys(range(self._partitions), self.rounds)


class Group:
    """The members of a group that is being moved."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, classes: Path | None = None) -> None:
        self._partitions = partitions
        self.ledger = Ledger()
        self.members: list[GroupMember] = []
        self._about = bootstrap, topic
        self._classes = classes
        self._numbers = itertools.count(1)

    def join(self, client: str, assignor: str | None) -> None:
        """Of the consumer protocol, unless it has an assignor of the classic one."""
        name = f"{client}-{assignor or 'consumer'}-{next(self._numbers)}"
        member: GroupMember
        if client == "java":
            assert self._classes is not None
            member = JavaMember(name, self.ledger, *self._about, assignor, self._classes)
        elif client == "librdkafka":
            member = LibrdkafkaMember(name, self.ledger, *self._about, assignor)
        else:
            assert assignor is not None
            member = KafkaPythonMember(name, self.ledger, *self._about, assignor)
        self.members.append(member.start())

    def leave(self) -> None:
        """The one that has been there longest."""
        self.members.pop(0).leave()

    def wait_until_shared(self) -> None:
        """Each partition has one owner, and all members have some."""
        names = sorted(member.name for member in self.members)

        def is_shared() -> bool:
            owners = self.ledger.owners()
            if self.ledger.failures:
                pytest.fail(str(self.ledger.failures))
            return (
                len(owners) == self._partitions
                and all(len(one) == 1 for one in owners.values())
                and sorted({one[0] for one in owners.values()}) == names
            )

        wait_until(is_shared, lambda: f"shared by {names}: {self.ledger.owners()}", seconds=4 * WAIT_SECONDS)

    def wait_until_it_reads(self) -> None:
        """Every partition goes on."""
        before = self.ledger.positions()

        def goes_on() -> bool:
            now = self.ledger.positions()
            return all(now.get(p, 0) >= before.get(p, 0) + READ_MEANWHILE for p in range(self._partitions))

        wait_until(goes_on, lambda: f"read on: {before}, {self.ledger.positions()}", seconds=4 * WAIT_SECONDS)

    def type(self) -> ConsumerGroupType:
        bootstrap, group_id = self._about[:2]
        # A client of its own: librdkafka asks a coordinator that it has cached, though that node is gone, for a minute.
        admin = AdminClient({"bootstrap.servers": bootstrap})
        described = admin.describe_consumer_groups([group_id])[group_id].result(WAIT_SECONDS)
        return described.type

    def close(self) -> None:
        while self.members:
            self.leave()
