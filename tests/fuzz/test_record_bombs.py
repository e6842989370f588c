"""Batches that are small on the wire and long when they are read: they are refused or read in steps, and a client
beside them is served as before."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import cramjam
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.core.records.batch import HEADER_BYTES, RECORDS_MAX, read_header
from chronik.core.records.payload import KeyValue, assemble, build, write_varint
from chronik.testing import RunningNode, node
from tests.fuzz.requests import header, sized
from tests.fuzz.scrape import metric

TIMEOUT_S = 60.0
PRODUCE, LIST_OFFSETS, METADATA = 0, 2, 3
INVALID_RECORD = 87
MAX_TIMESTAMP = -3
ZSTD = 4
COUNT = 300_000
TIME_MS = 1_700_000_000_000
LATER_MS = 60  # the time of the last record, after that of all others
QUIET_REQUESTS = 300
FLOOR_MS = 20.0  # of the quiet p99: below it a busy machine decides, not the node


@pytest.fixture(scope="module")
def running() -> Iterator[RunningNode]:
    # 'os': what is measured is the event loop, not the disk.
    with node({"log.cleaner.backoff.ms": "1", "durability": "os"}) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        keyed = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0"}
        topics = [NewTopic("plain", 1, 1, config={"retention.ms": "-1"}), NewTopic("keyed", 1, 1, config=keyed)]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT_S)
        yield started


def connect(running: RunningNode) -> socket.socket:
    connected = socket.create_connection((running.host, running.port), timeout=TIMEOUT_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def ask(connected: socket.socket, request: bytes) -> bytes:
    connected.sendall(sized(request))
    (size,) = struct.unpack(">i", connected.recv(4, socket.MSG_WAITALL))
    return connected.recv(size, socket.MSG_WAITALL)


def produce(running: RunningNode, topic: str, records: bytes) -> int:
    """The error code that the batch is answered with."""
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + _text(topic) + struct.pack(">iii", 1, 0, len(records)) + records
    with connect(running) as sender:
        answer = ask(sender, header(PRODUCE, 7, 5) + body)
    return int(struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)[0])


def offset_at(running: RunningNode, topic: str, timestamp: int) -> tuple[int, int]:
    """Error code and offset of the first record of this time."""
    body = struct.pack(">ibi", -1, 0, 1) + _text(topic) + struct.pack(">iiiq", 1, 0, -1, timestamp)
    version = 7 if timestamp == MAX_TIMESTAMP else 5
    head = header(LIST_OFFSETS, version, 5)
    if version >= 6:  # flexible: compact lengths, and tags at every end
        body = struct.pack(">ib", -1, 0) + bytes((2, len(topic) + 1)) + topic.encode()
        body += bytes((2,)) + struct.pack(">iiq", 0, -1, timestamp) + bytes(3)
    with connect(running) as asker:
        answer = ask(asker, head + body)
    at = 4 + 1 + 4 + 1 + 1 + len(topic) + 1 + 4 if version >= 6 else 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    code, _, offset = struct.unpack_from(">hqq", answer, at)
    return code, offset


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def bomb(count: int = COUNT, time_ms: int = TIME_MS) -> bytes:
    """So many records of one key, the last one later than all others, packed."""
    body = bytearray()
    for number in range(count):
        record = bytearray(1)
        write_varint(record, LATER_MS if number == count - 1 else 0)
        write_varint(record, number)
        record += b"\x02k\x01\x00"  # the key 'k', no value, no headers
        write_varint(body, len(record))
        body += record
    return packed(bytes(body), count, time_ms)


def packed(body: bytes, count: int, time_ms: int = TIME_MS) -> bytes:
    one = read_header(build([KeyValue(b"k", b"v")], time_ms))
    claimed = one._replace(
        attributes=ZSTD, record_count=count, last_offset_delta=count - 1, max_timestamp=time_ms + LATER_MS
    )
    return bytes(assemble(bytes(cramjam.zstd.compress(body)), claimed))


class Bystander(threading.Thread):
    """Asks for something harmless over and over, and notes how long each answer takes."""

    def __init__(self, running: RunningNode, count_max: int = sys.maxsize) -> None:
        super().__init__(daemon=True)
        self.times_ms: list[float] = []
        self._count_max = count_max
        self._connected = connect(running)
        self._is_over = threading.Event()

    def run(self) -> None:
        with self._connected:
            while not self._is_over.is_set() and len(self.times_ms) < self._count_max:
                began = time.perf_counter()
                ask(self._connected, header(METADATA, 1, 7) + struct.pack(">i", 0))
                self.times_ms.append((time.perf_counter() - began) * 1000)

    def end(self) -> float:
        """The p99 in milliseconds."""
        self._is_over.set()
        self.join(TIMEOUT_S)
        assert not self.is_alive()
        return sorted(self.times_ms)[int(len(self.times_ms) * 0.99)]


def quiet_p99_ms(running: RunningNode) -> float:
    bystander = Bystander(running, QUIET_REQUESTS)
    bystander.start()
    bystander.join(TIMEOUT_S)
    return bystander.end()


@contextmanager
def undisturbed(running: RunningNode) -> Iterator[None]:
    """What is done within leaves a second client's p99 within ten times its quiet one."""
    limit_ms = 10 * max(quiet_p99_ms(running), FLOOR_MS)
    bystander = Bystander(running)
    bystander.start()
    try:
        yield
    finally:
        p99_ms = bystander.end()
    assert p99_ms <= limit_ms, f"p99 of {len(bystander.times_ms)} requests beside it: {p99_ms:.1f} ms"
    assert metric(running, "chronik_faults_total") == 0


@pytest.mark.parametrize("topic", ["plain", "keyed"])
def test_a_count_beyond_what_a_batch_may_hold_is_refused(running: RunningNode, topic: str) -> None:
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    kilobytes_25 = packed(record * RECORDS_MAX, 38_000_000)
    assert len(kilobytes_25) < 25_000
    assert produce(running, topic, kilobytes_25) == INVALID_RECORD


def test_a_count_that_is_not_true_is_refused_where_records_are_looked_at(running: RunningNode) -> None:
    with undisturbed(running):
        assert produce(running, "keyed", packed(b"\x0c\x00\x00\x00\x01\x01\x00" * 1000, RECORDS_MAX)) == INVALID_RECORD


def test_a_long_batch_holds_up_no_other_client_wherever_it_is_read(running: RunningNode) -> None:
    long = bomb()
    assert len(long) - HEADER_BYTES < COUNT * 3

    with undisturbed(running):  # its keys are looked at
        assert produce(running, "keyed", long) == 0
    assert produce(running, "plain", long) == 0
    with undisturbed(running):
        assert offset_at(running, "plain", TIME_MS + LATER_MS) == (0, COUNT - 1)
        assert offset_at(running, "plain", MAX_TIMESTAMP) == (0, COUNT - 1)
    with undisturbed(running):
        assert produce(running, "keyed", bomb(2, TIME_MS + 60_000)) == 0  # in a new segment
        _wait_for_line(running, "bytes less by compaction")


def _wait_for_line(running: RunningNode, words: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    with connect(running) as connected:
        while True:
            ask(connected, header(METADATA, 1, 7) + struct.pack(">i", 0))  # so that this does not read all the time
            with open(running.log_path) as lines:
                if words in lines.read():
                    return
            assert time.monotonic() < deadline, f"{os.path.basename(running.log_path)} never says {words!r}"
