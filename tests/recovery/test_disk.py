"""A disk that is full, and directories that are not this node's to use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.node.cluster.identity import META
from chronik.testing import RunningNode, node
from tests.recovery.ledger import TIMEOUT_S, Ledger, check_delivered, check_dense, consume_all

DISK_BYTES = 24 * 1024 * 1024
TOPIC = "orders"
REFUSED = 2  # the exit code for what a person must put right


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chronik-test", str(where)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"disk full: a small disk cannot be mounted here ({mounted.stderr.strip()})")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


class Writer:
    """Produces one batch at a time, and keeps what it was told."""

    def __init__(self, running: RunningNode) -> None:
        settings = {"bootstrap.servers": running.bootstrap, "acks": "all", "retries": 0, "linger.ms": 0}
        self._producer = Producer(settings)
        self.ledger = Ledger()
        self.sent = 0

    def write(self, size_bytes: int) -> int:
        """Returns Kafka's error code, 0 for success."""
        codes: list[int] = []

        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.ledger.take(0, message.offset() or 0, payload)
            codes.append(0 if error is None else error.code())

        payload = (b"%06d" % self.sent).ljust(size_bytes, b".")
        self.sent += 1
        self._producer.produce(TOPIC, payload, partition=0, on_delivery=told)
        assert self._producer.flush(TIMEOUT_S) == 0
        return codes[0]


def test_a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(DISK_BYTES // 2))
    with node(data_dir=str(small_disk / "node")) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
        writer = Writer(running)
        codes = [writer.write(500_000) for _ in range(40)]

        assert codes[:10] == [0] * 10
        assert set(codes) == {0, KafkaError.KAFKA_STORAGE_ERROR}
        assert codes[-1] == KafkaError.KAFKA_STORAGE_ERROR
        check_delivered(writer.ledger, consume_all(running.bootstrap, TOPIC, 1), TOPIC, running.data_dir)

        ballast.unlink()
        assert wait_until_written(writer) == 0
        delivered = consume_all(running.bootstrap, TOPIC, 1)
        check_delivered(writer.ledger, delivered, TOPIC, running.data_dir)
        check_dense(delivered)

        running.restart()
        assert consume_all(running.bootstrap, TOPIC, 1) == delivered


def wait_until_written(writer: Writer) -> int:
    deadline = time.monotonic() + TIMEOUT_S
    code = writer.write(500_000)
    while code and time.monotonic() < deadline:
        code = writer.write(500_000)
    return code


def test_a_node_that_is_killed_on_a_full_disk_starts_again_and_has_lost_nothing(small_disk: Path) -> None:
    with node(data_dir=str(small_disk / "node")) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
        writer = Writer(running)
        codes = [writer.write(700_000) for _ in range(40)]
        assert KafkaError.KAFKA_STORAGE_ERROR in codes
        running.kill()

        running.start()  # there is no room for as much as a line of log

        delivered = consume_all(running.bootstrap, TOPIC, 1)
        check_delivered(writer.ledger, delivered, TOPIC, running.data_dir)


def serve(data_dir: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chronik", "serve", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    command += ["--http", "127.0.0.1:0"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=os.environ)


def test_a_second_node_on_the_same_directory_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with node(data_dir=str(tmp_path / "node")) as running:
        second = serve(tmp_path / "node")

        assert second.returncode == REFUSED
        assert "in use by another node" in second.stderr
        assert "Traceback" not in second.stderr
        assert AdminClient({"bootstrap.servers": running.bootstrap}).list_topics(timeout=TIMEOUT_S).brokers


@pytest.mark.parametrize("change", ["newer", "damaged"])
def test_a_directory_of_a_newer_format_or_a_damaged_one_is_refused_and_left_as_it_is(
    tmp_path: Path, change: str
) -> None:
    with node(data_dir=str(tmp_path / "node")):
        pass
    meta = tmp_path / "node" / META
    lines = meta.read_text().splitlines()
    if change == "newer":  # a newer version writes a checksum that holds, or none
        lines = [line.replace("chronik.format=1", "chronik.format=2") for line in lines if "checksum" not in line]
    else:
        lines = [line.replace("cluster.id=", "cluster.id=X") for line in lines]
    meta.write_text("\n".join(lines) + "\n")
    shutil.copytree(tmp_path / "node", tmp_path / "before")

    refused = serve(tmp_path / "node")

    assert refused.returncode == REFUSED
    assert ("format 2" if change == "newer" else "checksum") in refused.stderr
    assert "Traceback" not in refused.stderr
    for path in (tmp_path / "before").rglob("*"):
        if path.is_file() and path.name != ".lock":
            assert (tmp_path / "node" / path.relative_to(tmp_path / "before")).read_bytes() == path.read_bytes()
