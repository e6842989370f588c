"""Producers that work while a cluster has a bad day: numbered messages, and a ledger of every acknowledgement."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

from tests.cluster.support import PARTITIONS
from tests.recovery.ledger import Ledger

GIVE_UP_S = 120.0  # a producer's own patience; the nodes are back long before
IN_FLIGHT = 200


class Load(ABC):
    """A producer in a thread of its own, at a steady pace, to all partitions of a topic in turn."""

    def __init__(self, name: str, topic: str, ledger: Ledger, pace_s: float = 0.002) -> None:
        self.name = name
        self.topic = topic
        self._ledger = ledger
        self._pace_s = pace_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.sent: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self.is_idempotent = False

    @abstractmethod
    def send(self, payload: bytes, partition: int) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until all is answered."""
        self._stopping.set()
        self._thread.join(GIVE_UP_S * 2)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                payload = f"{self.name}-{len(self.sent)}".encode()
                self.sent.append(payload)
                self.send(payload, len(self.sent) % PARTITIONS)
                waiting = len(self.sent) - len(self.acknowledged) - len(self.failed)
                time.sleep(self._pace_s if waiting < IN_FLIGHT else 0.05)
            self.flush()
        except Exception as problem:
            self.failed.append(f"{self.name} ended: {problem!r}")

    def take(self, partition: int, offset: int, payload: bytes) -> None:
        self._ledger.take(partition, offset, payload)
        self.acknowledged.append(payload)


class ConfluentLoad(Load):
    """librdkafka, with its defaults but for what is given."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, ledger: Ledger, settings: Mapping[str, Any], pace_s: float = 0.002
    ) -> None:
        super().__init__(name, topic, ledger, pace_s)
        self.is_idempotent = bool(settings.get("enable.idempotence"))
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})

    def send(self, payload: bytes, partition: int) -> None:
        self._producer.produce(self.topic, payload, partition=partition, on_delivery=self._told)
        self._producer.poll(0)

    def flush(self) -> None:
        self._producer.flush(GIVE_UP_S)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        payload = bytes(message.value() or b"")
        if error is not None:
            self.failed.append(f"{payload!r}: {error}")
            return
        offset = message.offset()
        if offset is None or offset < 0:
            # A retry from further back than the new leader knows offsets of: it has it, as Kafka says with error 46.
            self.acknowledged.append(payload)
        else:
            self.take(message.partition() or 0, offset, payload)


class KafkaPythonLoad(Load):
    """kafka-python, with its defaults but for what is given."""

    def __init__(self, name: str, bootstrap: str, topic: str, ledger: Ledger, settings: Mapping[str, Any]) -> None:
        super().__init__(name, topic, ledger, pace_s=0.01)
        self.is_idempotent = bool(settings.get("enable_idempotence"))
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), **settings)

    def send(self, payload: bytes, partition: int) -> None:
        future = self._producer.send(self.topic, payload, partition=partition)
        future.add_callback(lambda told: self.take(told.partition, told.offset, payload))
        future.add_errback(lambda error: self.failed.append(f"{payload!r}: {error!r}"))

    def flush(self) -> None:
        self._producer.flush(GIVE_UP_S)
        self._producer.close()


@contextmanager
def under_load(*loads: Load) -> Iterator[None]:
    """They all work during the block, and are answered for everything when it ends."""
    for load in loads:
        load.start()
    try:
        yield
    finally:
        for load in loads:
            load.stop()


def check_producers(loads: Iterable[Load], delivered: Iterable[bytes]) -> None:
    """All that was sent was acknowledged in the end, and is there; of an idempotent producer exactly once."""
    counts = Counter(delivered)
    for load in loads:
        assert load.failed == [], f"{load.name}: {len(load.failed)} messages failed: {load.failed[:5]}"
        assert load.sent, f"{load.name} sent nothing"
        assert sorted(load.acknowledged) == sorted(load.sent), f"{load.name} was not answered for all"
        assert [payload for payload in load.sent if not counts[payload]] == []
        if load.is_idempotent:
            assert [payload for payload in load.sent if counts[payload] > 1] == [], f"{load.name} has duplicates"
