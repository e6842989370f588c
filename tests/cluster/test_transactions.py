"""Transactions while leaders, coordinators and the controller are killed: all of a transaction, once, or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Producer

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
    wait_until_in_sync,
)
from tests.cluster.transactional import (
    SETTINGS,
    CommittedReader,
    TransactionalWriter,
    check_exact,
    coordinator_of,
    values,
)

MESSAGES = 3_000
A_TRANSACTION = 50


@pytest.fixture(scope="module")
def transactions_cluster() -> Iterator[RunningCluster]:
    with start_cluster(nodes=3, settings=SETTINGS) as running:
        yield running
        check_logs(running)


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
