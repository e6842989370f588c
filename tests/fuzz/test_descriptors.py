"""A node with few file descriptors, and one that has none left: what needs one is refused, nothing acknowledged is
lost, and when there are some again everything is served without a restart."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.shell.descriptors import shared_out
from chronik.testing import RunningNode
from chronik.testing.node import TEST_SETTINGS
from tests.fuzz.scrape import metric
from tests.fuzz.test_limits import connect, metadata_answer

FEW = 120
FLOOD = 400
TIMEOUT_S = 30.0
KEPT_PER_TOPIC = 20


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[RunningNode]:
    """A node whose system gives it few descriptors."""
    running = RunningNode(str(tmp_path / "data"), TEST_SETTINGS)
    running.launched_by = ["sh", "-c", f'ulimit -n {FEW}; exec "$@"', "sh"]
    try:
        running.start()
        yield running
        assert running.stop() == 0
    finally:
        running.kill()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}"


def printed(running: RunningNode) -> str:
    return Path(running.log_path).read_text()


@contextlib.contextmanager
def idle_connections(running: RunningNode, count: int) -> Iterator[None]:
    """As many as that are tried; those that the node does not take it closes."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection((running.host, running.port), timeout=TIMEOUT_S))
        yield
    finally:
        for each in opened:
            each.close()


@contextlib.contextmanager
def no_descriptors(running: RunningNode) -> Iterator[None]:
    """From outside: the process may open nothing more, as when something else in it had taken all."""
    before = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
    in_use = max(int(name) for name in os.listdir(f"/proc/{running.pid}/fd"))
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (min(in_use, 10), before[1]))
    try:
        yield
    finally:
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def known(connected: socket.socket) -> Iterator[None]:
    """The node has taken this connection already."""
    metadata_answer(connected)
    yield


def create(running: RunningNode, *topics: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        made.result(TIMEOUT_S)


class Client:
    """Somebody else's producer, and what it was told is safe."""

    def __init__(self, running: RunningNode) -> None:
        self._producer = Producer(
            {"bootstrap.servers": running.bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 60_000}
        )
        self.acknowledged: set[tuple[str, bytes]] = set()
        self.refused: list[KafkaError] = []

    def send(self, topic: str, *values: bytes) -> None:
        for value in values:
            self._producer.produce(topic, value, on_delivery=self._told)
        self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
        else:
            value, topic = message.value(), message.topic()
            assert value is not None
            assert topic is not None
            self.acknowledged.add((topic, value))

    def wait(self) -> None:
        """Until all is safe, by as many tries as it takes."""
        assert self._producer.flush(TIMEOUT_S * 2) == 0
        assert self.refused == []


def stored(running: RunningNode, topics: list[str]) -> list[tuple[str, bytes]]:
    """All records of these topics, of one partition each."""
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "reads", "enable.partition.eof": True})
    found: list[tuple[str, bytes]] = []
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    left = set(topics)
    while left:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"nothing more of {left}"
        error, topic, value = message.error(), message.topic(), message.value()
        assert topic is not None
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            left.discard(topic)
        else:
            assert value is not None
            found.append((topic, value))
    consumer.close()
    return found


def values(count: int, word: str) -> list[bytes]:
    return [f"{word}-{number}".encode() for number in range(count)]


def test_a_flood_of_idle_connections_leaves_the_files_their_descriptors(limited: RunningNode) -> None:
    old = [f"old{number}" for number in range(10)]
    new = [f"new{number}" for number in range(40)]  # more than files may be open
    create(limited, *old)
    client = Client(limited)
    for topic in old:
        client.send(topic, *values(KEPT_PER_TOPIC, "before"))
    client.wait()

    with idle_connections(limited, FLOOD):
        allowed = shared_out(FEW).connections
        assert 0 < metric(limited, "chronik_connections_max") <= allowed  # some are kept for other nodes
        assert metric(limited, "chronik_connections") <= allowed
        for topic in (*old, *new):
            client.send(topic, *values(KEPT_PER_TOPIC, "during"))
        client.wait()  # it has a connection, and by that one all of it goes
    for topic in (*old, *new):
        client.send(topic, *values(KEPT_PER_TOPIC, "after"))
    client.wait()

    assert sorted(stored(limited, [*old, *new])) == sorted(client.acknowledged)
    assert metric(limited, "chronik_partitions_offline") == 0
    assert metric(limited, "chronik_faults_total") == 0
    lines = printed(limited)
    assert f"{FEW} file descriptors: " in lines
    assert "Traceback" not in lines


def test_without_any_descriptor_left_nothing_is_lost_and_all_is_served_afterwards(limited: RunningNode) -> None:
    old = [f"old{number}" for number in range(40)]  # more than files may be open
    new = [f"new{number}" for number in range(10)]
    create(limited, *old)
    client = Client(limited)
    for topic in old:
        client.send(topic, *values(KEPT_PER_TOPIC, "before"))
    client.wait()

    with connect(limited) as bystander, known(bystander), no_descriptors(limited):
        for topic in (*old, *new):
            client.send(topic, *values(KEPT_PER_TOPIC, "during"))
        for _ in range(10):
            with idle_connections(limited, 5):  # which it cannot take
                assert metadata_answer(bystander)[:4] == struct.pack(">i", 7)
        wait_until(lambda: "batches are refused" in printed(limited), "it had no descriptor to write with")
    client.wait()
    for topic in (*old, *new):
        client.send(topic, *values(KEPT_PER_TOPIC, "after"))
    client.wait()

    assert sorted(stored(limited, [*old, *new])) == sorted(client.acknowledged)
    assert metric(limited, "chronik_partitions_offline") == 0
    assert metric(limited, "chronik_faults_total") == 0
    assert "Traceback" not in printed(limited)
