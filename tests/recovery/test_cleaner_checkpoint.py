"""What was compacted before a restart, orderly or not, is not compacted again; a new topic of that name is."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.node.replication.checkpoints import CLEANED, decode
from chronik.testing import RunningNode, node
from tests.cluster.support import wait_until
from tests.recovery.ledger import TIMEOUT_S

TOPIC = "accounts"
CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
SETTINGS = {"log.cleaner.backoff.ms": "100"}
VALUE = b"v" * 400_000


def create(running: RunningNode) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(TIMEOUT_S)


def write(running: RunningNode, count: int, key: bytes = b"one") -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "linger.ms": 0, "batch.size": 500_000})
    for _ in range(count):
        producer.produce(TOPIC, VALUE, key)
        assert producer.flush(TIMEOUT_S) == 0


def cleaned(directory: Path) -> int | None:
    """As the node has stored it."""
    path = directory / CLEANED
    known = decode(CLEANED, path.read_bytes()) if path.exists() else {}
    return next((offset for name, offset in known.items() if name.topic == TOPIC), None)


def closed_segments(directory: Path) -> dict[str, int]:
    """By name, the inode: a segment that is compacted is another file."""
    paths = sorted((directory / f"{TOPIC}-0").glob("*.log"))
    return {path.name: path.stat().st_ino for path in paths[:-1]}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_does_not_compact_anew(quick_path: Path, is_killed: bool) -> None:
    with node(SETTINGS, str(quick_path)) as running:
        create(running)
        write(running, 12)
        wait_until(lambda: (cleaned(quick_path) or 0) > 0, "how far it was compacted is stored")
        known, before = cleaned(quick_path), closed_segments(quick_path)
        if is_killed:
            running.kill()

    with node(SETTINGS, str(quick_path)) as running:
        other = "other"
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(other, 1, 1, config=CONFIG)])[other].result(TIMEOUT_S)
        rounds_pass(running, quick_path, other)

        assert (cleaned(quick_path), closed_segments(quick_path)) == (known, before)


def rounds_pass(running: RunningNode, directory: Path, topic: str) -> None:
    """Until the cleaner has compacted another topic: it has looked at all then."""
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "linger.ms": 0, "batch.size": 500_000})
    for _ in range(12):
        producer.produce(topic, VALUE, b"one")
        assert producer.flush(TIMEOUT_S) == 0
    path = directory / CLEANED
    wait_until(lambda: any(name.topic == topic for name in decode(CLEANED, path.read_bytes())), "it was compacted")


def test_a_topic_that_is_made_anew_is_compacted_from_its_start(quick_path: Path) -> None:
    with node(SETTINGS, str(quick_path)) as running:
        create(running)
        write(running, 12)
        wait_until(lambda: (cleaned(quick_path) or 0) > 0, "how far it was compacted is stored")
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.delete_topics([TOPIC])[TOPIC].result(TIMEOUT_S)
        wait_until(lambda: cleaned(quick_path) is None, "it is forgotten with the topic")
        create(running)
        write(running, 12)
        wait_until(lambda: (cleaned(quick_path) or 0) > 0, "the new one is compacted")
