"""Transactions while leaders, coordinators and the controller are killed: all of a transaction, once, or nothing."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from chronik.core.machines.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from chronik.node.coordinators.runtime import partition_of
from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.cluster.support import (
    PARTITIONS,
    WAIT_S,
    check_logs,
    controller_of,
    create_topic,
    leader_of,
    new_name,
    wait_until,
    wait_until_in_sync,
)

MESSAGES = 3_000
A_TRANSACTION = 50
STATE_PARTITIONS = 10
SETTINGS = {
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def transactions_cluster() -> Iterator[RunningCluster]:
    with start_cluster(nodes=3, settings=SETTINGS) as running:
        yield running
        check_logs(running)


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


@contextmanager
def kills(cluster: RunningCluster, *victims: Callable[[], int]) -> Iterator[None]:
    """SIGKILL of each in turn, and it comes back; as long as there is work to disturb."""
    ending = threading.Event()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            for victim in victims:
                time.sleep(0.5)
                node_id = victim()
                cluster.kill(node_id)
                time.sleep(1.0)
                cluster.nodes[node_id].start()
                if ending.is_set():
                    return
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    ending.set()
    thread.join(WAIT_S)
    assert not problems, problems


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


@pytest.mark.timeout(180)
def test_each_transaction_is_there_once_and_whole_while_nodes_are_killed(transactions_cluster: RunningCluster) -> None:
    cluster = transactions_cluster
    topic, name = create_topic(cluster.bootstrap), new_name("tx")
    expected = values(MESSAGES)
    with CommittedReader(cluster.bootstrap, topic).reading() as reader:
        writer = TransactionalWriter(cluster.bootstrap, name)
        victims = (
            lambda: leader_of(cluster, topic),
            lambda: coordinator_of(cluster, name),
            lambda: controller_of(cluster),
        )
        with kills(cluster, *victims):
            for start in range(0, MESSAGES, A_TRANSACTION):
                part = expected[start : start + A_TRANSACTION]
                writer.write(partial(_write_part, topic, part))
                time.sleep(0.05)
        check_exact(reader, expected)
    wait_until_in_sync(cluster, topic)


def _write_part(topic: str, part: list[bytes], producer: Producer) -> None:
    _produce(producer, topic, part)


def _produce(producer: Producer, topic: str, part: list[bytes]) -> None:
    for number, value in enumerate(part):
        producer.produce(topic, value, partition=number % PARTITIONS)


class Copier:
    """Consumes, produces and commits what it consumed in one transaction; after an abort it reads again from there."""

    def __init__(self, bootstrap: str, source: str, target: str, transactional_id: str) -> None:
        self._source, self._target = source, target
        self.writer = TransactionalWriter(bootstrap, transactional_id)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": new_name("copy"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "session.timeout.ms": 45_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([source])

    def copy(self, count: int) -> None:
        """Until so many are committed."""
        copied = 0
        deadline = time.monotonic() + WAIT_S * 2
        while copied < count:
            assert time.monotonic() < deadline, f"{copied} of {count} were copied"
            messages = [one for one in self._consumer.consume(A_TRANSACTION, 0.5) if not one.error()]
            if messages:
                self.writer.write(partial(self._work, messages))
                copied += len(messages)
        self._consumer.close()

    def _work(self, messages: list[Message], producer: Producer) -> None:
        """Written again as it is when it was aborted: the offsets belong to these messages, not to a position."""
        ends: dict[int, int] = {}
        for message in messages:
            partition = message.partition() or 0
            producer.produce(self._target, message.value(), partition=partition)
            ends[partition] = (message.offset() or 0) + 1
        offsets = [TopicPartition(self._source, partition, offset) for partition, offset in ends.items()]
        self.writer.retried(
            lambda: producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), WAIT_S)
        )


@pytest.mark.timeout(240)
def test_a_copy_is_exact_while_nodes_are_killed(transactions_cluster: RunningCluster) -> None:
    cluster = transactions_cluster
    source, target, name = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap), new_name("copy")
    expected = values(MESSAGES)
    TransactionalWriter(cluster.bootstrap, new_name("source")).write(lambda made: _produce(made, source, expected))
    with CommittedReader(cluster.bootstrap, target).reading() as reader:
        copier = Copier(cluster.bootstrap, source, target, name)
        victims = (
            lambda: coordinator_of(cluster, name),
            lambda: leader_of(cluster, target),
            lambda: controller_of(cluster),
            lambda: leader_of(cluster, OFFSETS_TOPIC),
        )
        with kills(cluster, *victims):
            copier.copy(MESSAGES)
        check_exact(reader, expected)
    wait_until_in_sync(cluster, target)


def test_a_transaction_whose_producer_and_coordinator_die_is_aborted_in_time(
    transactions_cluster: RunningCluster,
) -> None:
    """Its time goes on at the next coordinator, which finds it in the log."""
    cluster = transactions_cluster
    topic, name = create_topic(cluster.bootstrap), new_name("abandoned")
    settings = {"transactional.id": name, "transaction.timeout.ms": 3_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    _produce(producer, topic, [b"abandoned"] * PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    coordinator = coordinator_of(cluster, name)
    cluster.kill(coordinator)
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    _produce(plain, topic, [b"behind"] * PARTITIONS)
    assert plain.flush(WAIT_S) == 0

    with CommittedReader(cluster.bootstrap, topic).reading() as reader:
        check_exact(reader, [b"behind"] * PARTITIONS)
    cluster.nodes[coordinator].start()
    wait_until_in_sync(cluster, topic)
