"""What clients do to a cluster in the lab: one writes at a steady pace, one reads in a group; each in a
thread of its own, with real clients. Some have bad habits, and those are the fault.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from chronik.client.request import NoAnswer, ask
from chronik.lab.bystanders import Bystanders
from chronik.lab.clients import CLIENT_END_S, PARTITIONS, close, create_topic, settings_of

TOPIC = "lab"
GROUP = "lab-readers"
WRITER, READER, IMPATIENT = "lab-writer", "lab-reader", "lab-impatient-reader"

WRITE_EVERY_S = 0.01
WRITTEN_AT_ONCE = 6
POLL_S = 0.1
# A reader that hangs up long before the node would have answered.
IMPATIENT_TIMEOUT_S = 0.3
PATIENT_WAIT_MS = 5_000
WANTED_BYTES = 50_000_000
STAY_S = 1.5
DYING, COMMITTING = "lab-dying-producer", "lab-committer"
COMMITTERS = 6
TRANSACTION_S = 30.0
COMMIT_S = 2.0  # a committer that takes longer is given up; its transaction is decided
WELL_RECORDS = 300


@dataclass(frozen=True)
class Habits:
    """How the clients of a load behave."""

    writes: bool = True
    reads: bool = True
    knows_one_node: bool = False  # of its bootstrap addresses only the first
    stops_after: int | None = None  # the reader asks no more after so many messages
    is_impatient: bool = False  # a further reader, whose timeout is shorter than it asks the node to wait
    comes_and_goes: bool = False  # a further member of the group, that never stays
    reads_committed: bool = False  # the reader reads with read_committed
    dies_in_transaction: bool = False  # a producer leaves a transaction open, and is gone
    commits_transactions: bool = False  # producers commit transactions over all partitions, one after the other
    has_bystanders: bool = False  # others that are well, and look ill to who is not careful
    writer: Mapping[str, Any] = field(default_factory=dict)  # settings of its client


@dataclass
class LoadCounts:
    """What the clients have been answered so far."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    consumed: int = 0


class Load:
    """The clients of one lab cluster. `addresses` are HOST:PORT of each node."""

    def __init__(self, addresses: list[str], habits: Habits, topic: str = TOPIC) -> None:
        self.counts = LoadCounts()
        self._habits = habits
        self._topic = topic
        self._all = addresses
        self._bootstrap = addresses[0] if habits.knows_one_node else ",".join(addresses)
        self._stopping = threading.Event()
        wanted = {
            self._write: habits.writes,
            self._read: habits.reads,
            self._read_impatiently: habits.is_impatient,
            self._come_and_go: habits.comes_and_goes,
            self._die_in_transaction: habits.dies_in_transaction,
            self._commit_transactions: habits.commits_transactions,
        }
        self._bystanders = Bystanders(self._bootstrap, topic, self._stopping) if habits.has_bystanders else None
        works = [work for work, is_wanted in wanted.items() if is_wanted]
        works += [] if self._bystanders is None else self._bystanders.works()
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def start(self) -> None:
        create_topic(",".join(self._all), self._topic)
        if self._bystanders is not None:
            self._bystanders.prepare()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Clients end as far as they can: with a fault some never would."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(CLIENT_END_S)

    # --- the clients

    def _write(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({**settings_of(self._bootstrap, WRITER), "acks": 1, "linger.ms": 5, **self._habits.writer})
        counts = self.counts

        def delivered(error: Any, _: Any) -> None:
            if error is None:
                counts.acknowledged += 1
            else:
                counts.failed += 1

        while not self._stopping.wait(WRITE_EVERY_S):
            try:
                for _ in range(WRITTEN_AT_ONCE):
                    value = b"message %d" % counts.sent
                    producer.produce(self._topic, value, partition=counts.sent % PARTITIONS, on_delivery=delivered)
                    counts.sent += 1
            except BufferError:  # nothing is acknowledged any more, and that is what is to be seen
                producer.poll(0.5)
            producer.poll(0)
        producer.flush(1.0)

    def _read(self) -> None:
        stops_after = self._habits.stops_after
        settings: dict[str, Any] = {}
        if stops_after is not None:
            settings = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1}
        if self._habits.reads_committed:
            settings["isolation.level"] = "read_committed"
        consumer = self._member(READER, settings)
        while not self._stopping.is_set():
            if stops_after is not None and self.counts.consumed >= stops_after:
                self._stopping.wait(POLL_S)  # it is busy with something else
                continue
            self._take(consumer)
        close(consumer)

    def _member(self, client_id: str, settings: Mapping[str, Any]) -> Any:
        from confluent_kafka import Consumer

        own = {
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 250,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,  # so that a change of the group is heard of at once
        }
        consumer = Consumer(settings_of(self._bootstrap, client_id) | own | dict(settings))
        consumer.subscribe([self._topic])
        return consumer

    def _take(self, consumer: Any) -> None:
        for message in consumer.consume(500, POLL_S):
            if message.error() is None:
                self.counts.consumed += 1

    def _come_and_go(self) -> None:
        """Every time it joins or leaves, the whole group has to be dealt with anew."""
        while not self._stopping.is_set():
            consumer = self._member(f"{READER}-visitor", {})
            leave_at = time.monotonic() + STAY_S
            while time.monotonic() < leave_at and not self._stopping.is_set():
                self._take(consumer)
            close(consumer)

    def _transactional(self, name: str) -> Any:
        from confluent_kafka import Producer

        producer = Producer({**settings_of(self._bootstrap, name), "transactional.id": name})
        producer.init_transactions(TRANSACTION_S)
        return producer

    def _write_in_transaction(self, producer: Any) -> None:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(self._topic, b"in a transaction", partition=partition)
        producer.flush(TRANSACTION_S)

    def _die_in_transaction(self) -> None:
        """When its reader has seen that all is well; what it leaves behind is open until its time is up."""
        producer = self._transactional(DYING)
        while self.counts.consumed < WELL_RECORDS and not self._stopping.is_set():
            self._stopping.wait(POLL_S)
        self._write_in_transaction(producer)

    def _commit_transactions(self) -> None:
        """Several ids: they have different coordinators. One that waits for its markers begins no other."""
        from confluent_kafka import KafkaException

        names = [f"{COMMITTING}-{number}" for number in range(COMMITTERS)]
        producers = [self._transactional(name) for name in names]
        while not self._stopping.wait(POLL_S):
            for producer in list(producers):
                try:
                    self._write_in_transaction(producer)
                    producer.commit_transaction(COMMIT_S)
                except KafkaException:  # it hangs: that is what is to be seen
                    producers.remove(producer)
                    producer.purge()

    def _read_impatiently(self) -> None:
        """The usual clients refuse such settings; those that people write themselves do not."""
        host, _, port = self._all[0].rpartition(":")
        request = _long_fetch(self._topic)
        while not self._stopping.is_set():
            try:
                ask((host, int(port)), request, IMPATIENT_TIMEOUT_S, IMPATIENT.encode())
            except NoAnswer:
                continue  # it hangs up and asks again


def _long_fetch(topic: str) -> Any:
    from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic

    asked = FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=0, log_start_offset=-1, partition_max_bytes=WANTED_BYTES
    )
    return FetchRequest(
        replica_id=-1,
        max_wait=timedelta(milliseconds=PATIENT_WAIT_MS),
        min_bytes=WANTED_BYTES,
        max_bytes=WANTED_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(FetchTopic(topic=topic, partitions=(asked,)),),
        forgotten_topics_data=(),
        rack_id="",
    )
