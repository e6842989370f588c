"""The run that this project began with: 5,000 messages, 3 partitions, 3 replicas, one address known: 5,000 consumed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from chronik.testing import RunningCluster
from tests.cluster.support import PARTITIONS, create_topic, new_name

MESSAGES = 5_000
VALUES = [b"message %d" % number for number in range(MESSAGES)]
PATIENCE_S = 60.0
NODE_IDS = (1, 2, 3)


def check_all(consumed: list[bytes]) -> None:
    counts = Counter(consumed)
    missing = [value for value in VALUES if not counts[value]]
    assert missing == [], f"{MESSAGES - len(missing)} of {MESSAGES} consumed; first missing {missing[:3]}"
    assert len(consumed) == MESSAGES, f"{len(consumed) - MESSAGES} duplicates"


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("node_id", NODE_IDS)
def test_kafka_python_with_one_bootstrap_address_consumes_all(cluster: RunningCluster, node_id: int, acks: Any) -> None:
    bootstrap = cluster.nodes[node_id].bootstrap
    topic = new_name()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3)])
    admin.close()

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence=acks == "all")
    for number, value in enumerate(VALUES):
        producer.send(topic, value, partition=number % PARTITIONS)
    producer.flush(PATIENCE_S)
    producer.close()

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=500)
    consumed: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(consumed) < MESSAGES and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            consumed += [record.value for record in records]
    consumer.close()
    check_all(consumed)


@pytest.mark.parametrize(("node_id", "acks"), [(1, "0"), (2, "1"), (3, "all")])
def test_confluent_with_one_bootstrap_address_consumes_all(cluster: RunningCluster, node_id: int, acks: str) -> None:
    bootstrap = cluster.nodes[node_id].bootstrap
    topic = create_topic(bootstrap)
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks})
    for number, value in enumerate(VALUES):
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=told)
    assert producer.flush(PATIENCE_S) == 0
    assert refused == []

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": new_name("g"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    consumed: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(consumed) < MESSAGES and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            consumed.append(bytes(message.value() or b""))
    consumer.close()
    check_all(consumed)


@pytest.mark.parametrize(("node_id", "acks"), [(1, "all"), (2, 0), (3, 1)])
def test_aiokafka_with_one_bootstrap_address_consumes_all(cluster: RunningCluster, node_id: int, acks: Any) -> None:
    bootstrap = cluster.nodes[node_id].bootstrap
    topic = create_topic(bootstrap)

    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=acks)
        await producer.start()
        answers = [await producer.send(topic, value, partition=at % PARTITIONS) for at, value in enumerate(VALUES)]
        await producer.flush()
        await asyncio.gather(*answers)
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumed: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(consumed) < MESSAGES and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                consumed += [record.value for record in records]
        await consumer.stop()
        return consumed

    check_all(asyncio.run(run()))
