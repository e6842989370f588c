"""Topics to read and to fill, by a client that is not ours."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

WAIT_S = 30.0


class Sent(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 1_700_000_000_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def new_topic(bootstrap: str, partitions: int = 1, name: str | None = None, **config: str) -> str:
    name = name or f"t-{uuid.uuid4().hex[:12]}"
    # The records of these tests have times of years ago, and would be deleted for their age.
    config = {"retention_ms": "-1", **config}
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    client = admin(bootstrap)  # it must outlive the answer
    client.create_topics([NewTopic(name, partitions, config=dotted)])[name].result(WAIT_S)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    client = admin(bootstrap)  # it must outlive the answer
    client.delete_topics([name])[name].result(WAIT_S)


def add_partitions(bootstrap: str, name: str, total: int) -> None:
    client = admin(bootstrap)  # it must outlive the answer
    client.create_partitions([NewPartitions(name, total)])[name].result(WAIT_S)


def delete_records(bootstrap: str, name: str, partition: int, before: int) -> None:
    place = TopicPartition(name, partition, before)
    client = admin(bootstrap)  # it must outlive the answer
    client.delete_records([place])[place].result(WAIT_S)


def send(bootstrap: str, topic: str, records: Iterable[Sent], codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, "log_level": 0})
    problems: list[Any] = []

    def reported(problem: Any, _: Any) -> None:
        if problem is not None:
            problems.append(problem)

    for each in records:
        producer.produce(
            topic,
            each.value,
            each.key,
            each.partition,
            timestamp=each.timestamp_ms,
            headers=list(each.headers),
            on_delivery=reported,
        )
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert problems == []


def simple(count: int, partition: int = 0, first: int = 0) -> list[Sent]:
    return [Sent(partition, None, b"%d" % number, 1_700_000_000_000 + number) for number in range(first, first + count)]


def received(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The first `count` messages of a topic, and whatever comes with them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "log_level": 0})
    metadata = consumer.list_topics(topic, timeout=WAIT_S).topics[topic]
    consumer.assign([TopicPartition(topic, number, 0) for number in metadata.partitions])
    messages: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), timeout=0.5)
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages"
    messages += consumer.consume(1000, timeout=0.2)
    consumer.close()
    return messages


def options(bootstrap: str, topic: str | None = None, **more: str) -> dict[str, str]:
    said: Mapping[str, str] = {} if topic is None else {"subscribe": topic}
    return {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": "20000", **said, **more}
