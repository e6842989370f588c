"""Clients that ask for too much, or never take what they asked for: what they get of the node's memory is bounded."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.core.records.batch import read_header
from chronik.core.records.payload import KeyValue, assemble, build
from chronik.testing import RunningNode, node
from tests.fuzz.requests import header, sized
from tests.fuzz.scrape import metric

MEGABYTE = 1024 * 1024
TIMEOUT_S = 30.0
TOPIC = "large"
TOPIC_BYTES = 64 * MEGABYTE
FETCH, PRODUCE, METADATA = 1, 0, 3
FETCH_VERSION = 11
INVALID_RECORD = 87


@pytest.fixture
def running() -> Iterator[RunningNode]:
    with node() as started:
        yield started


def connect(running: RunningNode) -> socket.socket:
    connected = socket.create_connection((running.host, running.port), timeout=TIMEOUT_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def resident_bytes(running: RunningNode) -> int:
    return psutil.Process(running.pid).memory_info().rss


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}"


def fill(running: RunningNode, topic: str = TOPIC, size_bytes: int = TOPIC_BYTES) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    if topic not in admin.list_topics(timeout=TIMEOUT_S).topics:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": running.bootstrap, "queue.buffering.max.kbytes": 1_000_000})
    for _ in range(size_bytes // 500_000):
        producer.produce(topic, bytes(500_000), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def fetch_request(correlation_id: int, offset: int, *, min_bytes: int = 1, max_wait_ms: int = 500) -> bytes:
    """Everything of the topic from this offset on, 50 MB at the most."""
    limit = 50 * MEGABYTE
    body = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, limit, 0, 0, -1)  # no session
    body += struct.pack(">ih", 1, len(TOPIC)) + TOPIC.encode()
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, limit) + struct.pack(">ih", 0, 0)
    return sized(header(FETCH, FETCH_VERSION, correlation_id) + body)


def metadata_answer(connected: socket.socket) -> bytes:
    """Ask for something harmless, to see that the node is there."""
    connected.sendall(sized(header(METADATA, 1, 7) + struct.pack(">i", 0)))
    (size,) = struct.unpack(">i", connected.recv(4, socket.MSG_WAITALL))
    return connected.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize("size", [2**31 - 1, 100 * MEGABYTE + 1, -1])
def test_a_request_over_the_limit_is_refused_before_memory_is_taken(running: RunningNode, size: int) -> None:
    before_bytes = resident_bytes(running)
    for _ in range(20):
        with connect(running) as greedy:
            greedy.sendall(struct.pack(">i", size) + bytes(1000))
            assert greedy.recv(1) == b""  # it hung up
    assert resident_bytes(running) - before_bytes < 16 * MEGABYTE
    assert metric(running, "chronik_faults_total") == 0


def test_requests_that_never_become_whole_hold_up_nobody_and_take_no_memory(running: RunningNode) -> None:
    before_bytes = resident_bytes(running)
    slow = [connect(running) for _ in range(200)]
    try:
        for connected in slow:  # each promises 90 MB and sends a hundred bytes of it, one at a time
            connected.sendall(struct.pack(">i", 90 * MEGABYTE))
        for number in range(100):
            for connected in slow:
                connected.sendall(bytes((number,)))
        with connect(running) as quick:
            assert metadata_answer(quick)[:4] == struct.pack(">i", 7)
        # What is promised is only touched as it comes: the memory of 200 promises would be 18 GB.
        assert resident_bytes(running) - before_bytes < 64 * MEGABYTE
    finally:
        for connected in slow:
            connected.close()
    wait_until(lambda: metric(running, "chronik_connections") == 0, "all connections are gone")


def test_answers_that_are_never_read_do_not_pile_up(running: RunningNode) -> None:
    fill(running)
    before_bytes = resident_bytes(running)
    deaf = connect(running)
    try:
        deaf.sendall(b"".join(fetch_request(number, 0) for number in range(300)))
        with connect(running) as quick:
            for _ in range(20):
                metadata_answer(quick)
        wait_until(lambda: metric(running, "chronik_fetched_bytes_total") >= 40 * MEGABYTE, "a fetch is answered")
        # One answer of 50 MB may be on its way, and a second one begun; 300 would be 15 GB.
        assert resident_bytes(running) - before_bytes < 160 * MEGABYTE
    finally:
        deaf.close()


def test_fetches_that_wait_together_do_not_pile_up_when_they_are_answered_together(running: RunningNode) -> None:
    fill(running, size_bytes=500_000)
    deaf = [connect(running) for _ in range(3)]
    try:
        for connected in deaf:
            requests = (fetch_request(n, 1, min_bytes=40 * MEGABYTE, max_wait_ms=10**9) for n in range(100))
            connected.sendall(b"".join(requests))
        wait_until(lambda: metric(running, "chronik_waiting_fetches") == 300, "all of them wait")
        before_bytes = resident_bytes(running)

        fill(running)

        wait_until(lambda: metric(running, "chronik_waiting_fetches") == 0, "all of them are answered")
        # A client's first answer may be on its way, and no other is read: 300 would be 12 GB.
        assert resident_bytes(running) - before_bytes < 300 * MEGABYTE
    finally:
        for connected in deaf:
            connected.close()


def test_a_fetch_whose_client_is_gone_waits_no_longer(running: RunningNode) -> None:
    fill(running, size_bytes=500_000)
    with connect(running) as leaving:
        leaving.sendall(b"".join(fetch_request(n, 1, max_wait_ms=2**31 - 1) for n in range(50)))
        wait_until(lambda: metric(running, "chronik_waiting_fetches") == 50, "they wait")
    wait_until(lambda: metric(running, "chronik_waiting_fetches") == 0, "they left")


def test_thousands_of_connections_opened_and_dropped_leave_nothing_behind(running: RunningNode) -> None:
    process = psutil.Process(running.pid)
    half = sized(header(METADATA, 1, 1) + struct.pack(">i", 0))

    def open_and_drop(count: int) -> None:
        for number in range(count):
            with connect(running) as connected:
                connected.sendall(half[: number % len(half)] if number % 3 else half)
        wait_until(lambda: metric(running, "chronik_connections") == 0, "all connections are gone")

    open_and_drop(500)
    before_bytes, before_descriptors = resident_bytes(running), process.num_fds()
    open_and_drop(3000)
    assert process.num_fds() <= before_descriptors + 2  # the HTTP port may have one of its own under way
    assert resident_bytes(running) - before_bytes < 8 * MEGABYTE
    assert metric(running, "chronik_faults_total") == 0


def test_a_batch_that_is_unpacked_is_unpacked_only_so_far(running: RunningNode) -> None:
    # On a compacted topic the node looks at every key: half a megabyte that would be 512 when unpacked.
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    config = {"cleanup.policy": "compact", "max.message.bytes": "10000000"}
    admin.create_topics([NewTopic("keys", 1, 1, config=config)])["keys"].result(TIMEOUT_S)
    before_bytes = resident_bytes(running)
    packer = zlib.compressobj(1, wbits=31)
    body = b"".join(packer.compress(bytes(16 * MEGABYTE)) for _ in range(32)) + packer.flush()
    gzip = read_header(build([KeyValue(b"k", b"v")], 0))._replace(attributes=1)
    records = bytes(assemble(body, gzip))
    request = (
        struct.pack(">hhii", -1, -1, 30_000, 1)
        + struct.pack(">h", 4)
        + b"keys"
        + struct.pack(">iii", 1, 0, len(records))
    )

    with connect(running) as sender:
        sender.sendall(sized(header(PRODUCE, 7, 5) + request + records))
        answer = sender.recv(1000)

    (error_code,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + 4 + 4 + 4)
    assert error_code == INVALID_RECORD
    assert resident_bytes(running) - before_bytes < 300 * MEGABYTE
    assert metric(running, "chronik_faults_total") == 0
