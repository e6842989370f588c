"""A client that minds its own business while others misbehave: it must notice nothing of it."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "bystander"
PARTITIONS = 3
TIMEOUT_S = 30.0
# Its own settings, so that what the fuzzer does to the defaults is none of its concern.
CONFIG = {"min.insync.replicas": "1", "max.message.bytes": "1048588", "cleanup.policy": "delete", "retention.ms": "-1"}


class Bystander:
    """Produces one message at a time with acks=all, and consumes them in a group, until it leaves."""

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        self._bootstrap = bootstrap
        self._replicas = replicas
        self._leaving = threading.Event()
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        self.latencies_s: list[float] = []
        self.acknowledged: list[bytes] = []
        self.consumed: list[bytes] = []
        self.problems: list[str] = []

    def __enter__(self) -> Bystander:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, self._replicas, config=CONFIG)])[TOPIC].result(TIMEOUT_S)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S * 2)

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "acks": "all", "linger.ms": 0, "message.timeout.ms": 30_000}
        )

        def acknowledged(error: object, message: object) -> None:
            if error is not None:
                self.problems.append(f"produce: {error}")
            else:
                self.acknowledged.append(value)

        number = 0
        while not self._leaving.is_set() or number == 0:
            value = b"message %d" % number
            began = time.monotonic()
            producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=acknowledged)
            if producer.flush(TIMEOUT_S):
                self.problems.append(f"message {number} was not acknowledged within {TIMEOUT_S} s")
                return
            self.latencies_s.append(time.monotonic() - began)
            number += 1
            self._leaving.wait(0.01)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "bystanders", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([TOPIC])
        deadline = None
        while deadline is None or (time.monotonic() < deadline and len(self.consumed) < len(self.acknowledged)):
            if deadline is None and self._leaving.is_set():
                deadline = time.monotonic() + TIMEOUT_S
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                self.problems.append(f"consume: {message.error()}")
            else:
                self.consumed.append(bytes(message.value() or b""))
        committed = consumer.committed(
            [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)], timeout=TIMEOUT_S
        )
        self.problems += [f"committed: {one.error}" for one in committed if one.error is not None]
        consumer.close()
