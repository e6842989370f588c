"""What the tests of transactions on a cluster share: a writer that survives kills, a reader beside it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from chronik.core.machines.metadata.names import TRANSACTIONS_TOPIC
from chronik.node.coordinators.runtime import partition_of
from chronik.testing import RunningCluster
from tests.cluster.support import PARTITIONS, WAIT_S, leader_of, new_name, wait_until

STATE_PARTITIONS = 10
SETTINGS = {
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


def coordinator_of(cluster: RunningCluster, transactional_id: str) -> int:
    return leader_of(cluster, TRANSACTIONS_TOPIC, partition_of(transactional_id, STATE_PARTITIONS))


class TransactionalWriter:
    """librdkafka, as its documentation has it: what can be aborted is aborted and done again, what is fatal ends it."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self.retried(lambda: self._producer.init_transactions(WAIT_S))
        self.aborts = 0

    def write(self, work: Callable[[Producer], None]) -> None:
        """One transaction, until it is committed."""
        while True:
            try:
                self._producer.begin_transaction()
                work(self._producer)
                self.retried(lambda: self._producer.commit_transaction(WAIT_S))
                return
            except KafkaException as problem:
                if not problem.args[0].txn_requires_abort():
                    raise
                self.retried(lambda: self._producer.abort_transaction(WAIT_S))
                self.aborts += 1

    def retried(self, step: Callable[[], None]) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                step()
                return
            except KafkaException as problem:
                if not problem.args[0].retriable() or time.monotonic() > deadline:
                    raise


class CommittedReader:
    """Reads a topic with `read_committed` all the while, without a group."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": new_name("reader"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and not message.error():
                self.values[message.partition() or 0].append(message.value() or b"")

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    @contextmanager
    def reading(self) -> Iterator[CommittedReader]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            self._thread.join(WAIT_S)
            self._consumer.close()


def values(count: int) -> list[bytes]:
    return [b"%05d" % number for number in range(count)]


def check_exact(reader: CommittedReader, expected: list[bytes]) -> None:
    wait_until(lambda: reader.count >= len(expected), lambda: f"{reader.count} of {len(expected)} were read")
    read = [value for part in reader.values.values() for value in part]
    missing, doubled = Counter(expected) - Counter(read), Counter(read) - Counter(expected)
    assert not missing, f"{len(missing)} are missing: {sorted(missing)[:10]}"
    assert not doubled, f"{len(doubled)} are there twice or were aborted: {sorted(doubled)[:10]}"
    for partition, part in reader.values.items():
        assert part == sorted(part), f"partition {partition} is out of order"
