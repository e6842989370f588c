"""Jobs for librdkafka through confluent-kafka, with its default settings but for queues that are large enough.

Each job counts what really arrived: a client that gave up on messages would look fast.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.bench.systems.system import MEGABYTE, cpu_seconds

TIMEOUT_S = 120.0
POLL_EVERY = 1_000
POLL_S = 0.01
LOG_ERRORS = 3  # as syslog counts: librdkafka would tell how it closes its queues


def create_topics(
    bootstrap: str, topics: dict[str, int], replicas: int = 1, config: dict[str, str] | None = None
) -> dict[str, float]:
    """Topics by name, with their number of partitions. All are there when it returns."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS})
    started = time.monotonic()
    # A request each: Kafka refuses to make more than 9,999 partitions with one.
    asked = [
        admin.create_topics(
            [NewTopic(name, count, replicas, config=config or {})],
            request_timeout=TIMEOUT_S,
            operation_timeout=TIMEOUT_S,
        )[name]
        for name, count in topics.items()
    ]
    for outcome in asked:
        outcome.result()
    _wait_until_led(admin, topics)
    return {"seconds": time.monotonic() - started}


def set_trace(bootstrap: str, is_on: bool) -> dict[str, float]:
    """Have everything traced on every node, or nothing."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS})
    entry = ConfigEntry("chronik.trace", str(is_on).lower(), incremental_operation=AlterConfigOpType.SET)
    nodes = admin.list_topics(timeout=TIMEOUT_S).brokers
    for node_id in nodes:
        wanted = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=[entry])
        for outcome in admin.incremental_alter_configs([wanted], request_timeout=TIMEOUT_S).values():
            outcome.result()
    return {}


def _wait_until_led(admin: AdminClient, topics: dict[str, int]) -> None:
    """A broker may say that a topic is created before it knows of it itself."""
    deadline = time.monotonic() + TIMEOUT_S
    for topic, count in topics.items():
        while True:
            known = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
            if len(known) == count and all(partition.leader >= 0 for partition in known.values()):
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} has no leaders yet")
            time.sleep(POLL_S)


def produce(
    bootstrap: str,
    node_pids: list[int],
    topic: str,
    messages: int,
    value_bytes: int,
    acks: str = "1",
    security: dict[str, str] | None = None,
) -> dict[str, float]:
    """Fill a topic that is empty, spread over its partitions as librdkafka likes. `security` are further settings."""
    producer = _producer(bootstrap, acks, security)
    partitions = len(producer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
    for partition in range(partitions):  # connections, producer state and files are there before the clock runs
        producer.produce(topic, b"warm-up", partition=partition)
    _flush(producer)
    value = os.urandom(value_bytes)

    def send() -> None:
        for number in range(messages):
            _enqueue(producer, topic, value)
            if number % POLL_EVERY == 0:
                producer.poll(0)
        _flush(producer)

    figures = _timed(send, node_pids, messages, value_bytes)
    arrived = stored(bootstrap, topic, security)
    if arrived != messages + partitions:
        raise RuntimeError(f"{arrived} of {messages + partitions} messages are in the log")
    return figures


def produce_one_to_each(bootstrap: str, node_pids: list[int], topics: dict[str, int]) -> dict[str, float]:
    """One message to every partition."""
    producer = _producer(bootstrap)
    for topic in topics:
        producer.list_topics(topic, timeout=TIMEOUT_S)
    value = os.urandom(100)

    def send() -> None:
        for topic, count in topics.items():
            for partition in range(count):
                _enqueue(producer, topic, value, partition)
            producer.poll(0)
        _flush(producer)

    return _timed(send, node_pids, sum(topics.values()), len(value))


def gap_after_kill(bootstrap: str, topic: str, pid: int, steady: int) -> dict[str, float]:
    """One message after the other with acks=all; then a node is killed. How long until the next one is acknowledged?"""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    for _ in range(steady):
        producer.produce(topic, b"steady", partition=0)
        _flush(producer)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    producer.produce(topic, b"after", partition=0)
    _flush(producer)
    return {"gap_s": time.monotonic() - killed}


def consume(
    bootstrap: str,
    node_pids: list[int],
    topic: str,
    messages: int,
    value_bytes: int,
    security: dict[str, str] | None = None,
) -> dict[str, float]:
    """Read the topic that `produce` has filled, all partitions at once, without a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.min.messages": 1_000_000,
            # With 64 MB it stops to fetch for a second when an answer comes sooner than the messages are taken.
            "queued.max.messages.kbytes": 1_000_000,
            **(security or {}),
        }
    )
    partitions = len(consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)

    def read() -> None:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        left = messages + partitions
        while left > 0:
            batch = consumer.consume(min(left, 10_000), timeout=10)
            if not batch:
                raise RuntimeError(f"{left} messages did not come")
            error = batch[0].error()
            if error is not None:
                raise KafkaException(error)
            left -= len(batch)

    figures = _timed(read, node_pids, messages, value_bytes)
    reached = consumer.position([TopicPartition(topic, partition) for partition in range(partitions)])
    if sum(place.offset for place in reached) != messages + partitions:  # errors come among the messages, too
        raise RuntimeError(f"read up to {[place.offset for place in reached]}, and not to the end")
    consumer.close()
    return figures


def _producer(bootstrap: str, acks: str = "1", security: dict[str, str] | None = None) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            **(security or {}),
        }
    )


def _enqueue(producer: Producer, topic: str, value: bytes, partition: int = -1) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:  # the queue is full: the node is what is waited for
            producer.poll(0.01)


def _flush(producer: Producer) -> None:
    left = producer.flush(TIMEOUT_S)
    if left:
        raise RuntimeError(f"{left} messages were not acknowledged")


def stored(bootstrap: str, topic: str, security: dict[str, str] | None = None) -> int:
    """How many messages are in a topic that nothing was deleted from."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", **(security or {})})
    partitions = len(consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S) for number in range(partitions)]
    consumer.close()
    return sum(high for _, high in ends)


def _timed(work: Callable[[], None], node_pids: list[int], messages: int, value_bytes: int) -> dict[str, float]:
    node_before_s, client_before_s = sum(map(cpu_seconds, node_pids)), cpu_seconds(os.getpid())
    started = time.monotonic()
    work()
    seconds = time.monotonic() - started
    return {
        "seconds": seconds,
        "messages_s": messages / seconds,
        "megabytes_s": messages * value_bytes / MEGABYTE / seconds,
        "node_cpu_s": sum(map(cpu_seconds, node_pids)) - node_before_s,
        "client_cpu_s": cpu_seconds(os.getpid()) - client_before_s,
    }
