"""Clients that can reach one address only, a port-forward to one node: all of the cluster is there for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka import KafkaConsumer, KafkaProducer

from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.clients.librdkafka import codes_of_one_batch
from tests.clients.support import KAFKA_PYTHON_POLL_MS, Record
from tests.cluster.load import ConfluentLoad, check_producers, under_load
from tests.cluster.port_forward import PortForward, port_forward
from tests.cluster.support import PARTITIONS, WAIT_S, check_logs, create_topic, new_name, told_by, wait_until
from tests.recovery.ledger import Ledger, check_delivered, check_dense, consume_all

MESSAGES = 1_000


class Behind:
    """A cluster, and the one port that its clients reach; it goes to node `entrance`."""

    def __init__(self, cluster: RunningCluster, forward: PortForward) -> None:
        self.cluster = cluster
        self.bootstrap = forward.address


@pytest.fixture(scope="module")
def behind() -> Iterator[Behind]:
    nodes: list[RunningCluster] = []

    def entrance() -> tuple[str, int]:
        node = next(iter(nodes[0].running().values()))
        return node.host, node.port

    with port_forward(entrance) as forward:
        settings = {"advertised.listeners": f"PLAINTEXT://{forward.address}"}
        with start_cluster(nodes=3, settings=settings) as running:
            nodes.append(running)
            yield Behind(running, forward)
            check_logs(running)


def test_every_node_tells_the_one_address(behind: Behind) -> None:
    host, _, port = behind.bootstrap.rpartition(":")
    for node in behind.cluster.nodes.values():
        told = told_by(node)
        assert told is not None
        assert set(told.brokers) == {1, 2, 3}
        assert set(told.brokers.values()) == {(host, int(port))}


def test_confluent_produces_consumes_and_commits_through_one_address(behind: Behind) -> None:
    topic, ledger = create_topic(behind.bootstrap), Ledger()
    load = ConfluentLoad("tunnel", behind.bootstrap, topic, ledger, {"enable.idempotence": True}, pace_s=0.0002)
    with under_load(load):
        wait_until(lambda: len(load.acknowledged) > MESSAGES, "messages are acknowledged")

    delivered = consume_all(behind.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in behind.cluster.nodes.values()))
    check_dense(delivered)
    check_producers([load], delivered.values())
    assert len(read_in_group(behind, topic, len(delivered))) == len(delivered)


def test_librdkafka_tells_bad_records_from_good_ones_whichever_node_leads(behind: Behind) -> None:
    """Librdkafka tells bad records from good ones whichever node leads their partition."""
    topic = create_topic(behind.bootstrap, config={"cleanup.policy": "compact"})
    records = [Record(b"x", key=None if number % 10 == 0 else b"k") for number in range(100)]
    for partition in range(PARTITIONS):  # all but one of them are led by a node that the client cannot reach
        codes = codes_of_one_batch(behind.bootstrap, topic, records, partition)
        assert {number for number, code in enumerate(codes) if code == KafkaError.INVALID_RECORD} == set(
            range(0, 100, 10)
        )
        assert codes.count(KafkaError._INVALID_DIFFERENT_RECORD) == 90  # its public name


def read_in_group(behind: Behind, topic: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": behind.bootstrap, "group.id": new_name("g"), "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            found.append(bytes(message.value() or b""))
    consumer.commit(asynchronous=False)
    committed = consumer.committed(consumer.assignment(), timeout=WAIT_S)
    consumer.close()
    assert sum(each.offset for each in committed if each.offset > 0) == count
    return found


def test_kafka_python_produces_and_consumes_through_one_address(behind: Behind) -> None:
    topic = create_topic(behind.bootstrap)
    values = [b"%d" % number for number in range(MESSAGES)]
    producer = KafkaProducer(bootstrap_servers=behind.bootstrap)
    for number, value in enumerate(values):
        producer.send(topic, value, partition=number % PARTITIONS)
    producer.flush(WAIT_S)
    producer.close()

    consumer = KafkaConsumer(
        topic, bootstrap_servers=behind.bootstrap, group_id=new_name("g"), auto_offset_reset="earliest"
    )
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < MESSAGES and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS).values():
            found += [record.value for record in records]
    consumer.close()
    assert sorted(found) == sorted(values)


@pytest.mark.timeout(180)
def test_clients_behind_one_address_live_through_the_death_of_a_leader(behind: Behind) -> None:
    topic, ledger = create_topic(behind.bootstrap), Ledger()
    load = ConfluentLoad("tunnel", behind.bootstrap, topic, ledger, {"enable.idempotence": True})
    with under_load(load):
        time.sleep(0.5)
        behind.cluster.kill(3)  # it leads a partition, and is not the way in
        acknowledged_before = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) > acknowledged_before + 300, "it goes on")
        behind.cluster.nodes[3].start()

    delivered = consume_all(behind.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in behind.cluster.nodes.values()))
    check_producers([load], delivered.values())
