"""Jobs on bare sockets with requests built beforehand, for what a client library would hide or slow down.

Produce version 7 and Metadata version 4: old enough to be written by hand, and spoken by every Kafka since 2.1.
"""

from __future__ import annotations

import os
import selectors
import socket
import statistics
import struct
import time

from chronik.core.records.payload import KeyValue, build
from tests.bench.systems.system import cpu_seconds
from tests.cluster.wire_client import watermark_delays

TIMEOUT_S = 60.0
RETRY_S = 0.001
RECEIVE_BYTES = 1 << 20
_CLIENT_ID = b"bench"
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
MICROSECOND = 1e-6


def produce_request(topic: str, value_bytes: int, acks: int) -> bytes:
    """One record to partition 0, with its length in front."""
    batch = bytes(build([KeyValue(None, os.urandom(value_bytes))], int(time.time() * 1000)))
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
    return _request(0, 7, body)


def metadata_request(topic: str) -> bytes:
    """Asks for one topic, and creates it when it is not there."""
    return _request(3, 4, _INT32.pack(1) + _string(topic) + b"\x01")


def _request(key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID
    return _INT32.pack(len(header) + len(body)) + header + body


def _string(text: str) -> bytes:
    return _INT16.pack(len(text)) + text.encode()


class RecordRefused(Exception):
    """The node answered a produce request with an error code."""


class Connection:
    """One connection on which only one-record produce requests to one topic are under way."""

    def __init__(self, port: int, topic: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # correlation id, number of topics, the topic's name, number of partitions, the partition: then its error code
        self._error_at = 4 + 4 + (2 + len(topic)) + 4 + 4
        self._received = b""

    def take_answers(self) -> int:
        """Receive, and count the answers that are whole; each must say that the record was taken."""
        came = self.socket.recv(RECEIVE_BYTES)
        if not came:
            raise ConnectionError("the node hung up")
        received = self._received + came
        position = count = refused_with = 0
        while position + 4 <= len(received):
            end = position + 4 + _INT32.unpack_from(received, position)[0]
            if end > len(received):
                break
            (error,) = _INT16.unpack_from(received, position + 4 + self._error_at)
            refused_with = refused_with or error
            position = end
            count += 1
        self._received = received[position:]
        if refused_with:
            raise RecordRefused(f"error code {refused_with}")
        return count

    def ask(self, request: bytes) -> None:
        """Send one request and wait for its answer."""
        self.socket.sendall(request)
        while not self.take_answers():
            continue

    def ask_for_topic(self, topic: str) -> None:
        """The answer has another shape: it is only read whole. Whether the topic is there, the first produce says."""
        self.socket.sendall(metadata_request(topic))
        received = b""
        while len(received) < 4 or len(received) < 4 + _INT32.unpack_from(received)[0]:
            received += self.socket.recv(RECEIVE_BYTES)

    def ask_until_taken(self, request: bytes, wanted_topic: str | None = None) -> None:
        """A new topic may have no leader for a moment; one that a young node did not create is asked for again."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self.ask(request)
            except RecordRefused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_S)
                if wanted_topic is not None:
                    self.ask_for_topic(wanted_topic)


def open_connection(port: int, topic: str) -> Connection:
    """A connection to a node that may not be there yet, and a topic that will be."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            connection = Connection(port, topic)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
    connection.ask_for_topic(topic)
    return connection


def first_acknowledged(port: int, topic: str) -> dict[str, float]:
    """Knock until a message, with acks=all, is acknowledged. `at` is on the monotonic clock, which processes share."""
    request = produce_request(topic, 100, acks=-1)
    connection = open_connection(port, topic)
    connection.ask_until_taken(request, topic)
    at = time.monotonic()
    connection.socket.close()
    return {"at": at}


def requests(
    port: int, node_pid: int, topic: str, count: int, connections: int, in_flight_each: int, value_bytes: int = 100
) -> dict[str, float]:
    """`count` one-record requests with acks=1, `in_flight_each` of each connection under way."""
    request = produce_request(topic, value_bytes, acks=1)
    opened = [open_connection(port, topic) for _ in range(connections)]
    for connection in opened:
        connection.ask_until_taken(request)
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        node_before_s, client_before_s, started = cpu_seconds(node_pid), cpu_seconds(os.getpid()), time.monotonic()
        for connection in opened:
            connection.socket.sendall(request * in_flight_each)
        to_send, answered = count - connections * in_flight_each, 0
        while answered < count:
            for key, _ in selector.select(TIMEOUT_S):
                taken = key.data.take_answers()
                answered += taken
                again = min(taken, to_send)
                if again > 0:
                    key.data.socket.sendall(request * again)
                    to_send -= again
        seconds = time.monotonic() - started
    node_cpu_s = cpu_seconds(node_pid) - node_before_s
    client_cpu_s = cpu_seconds(os.getpid()) - client_before_s
    for connection in opened:
        connection.socket.close()
    return {"seconds": seconds, "requests_s": count / seconds, "node_cpu_s": node_cpu_s, "client_cpu_s": client_cpu_s}


def one_at_a_time(port: int, topic: str, count: int, value_bytes: int) -> dict[str, float]:
    """Each message waits for the one before it to be acknowledged, with acks=all."""
    request = produce_request(topic, value_bytes, acks=-1)
    connection = open_connection(port, topic)
    for _ in range(max(1, count // 20)):
        connection.ask_until_taken(request)
    latencies = []
    for _ in range(count):
        started = time.perf_counter()
        connection.ask(request)
        latencies.append(time.perf_counter() - started)
    connection.socket.close()
    return _percentiles(latencies)


def watermark_delay(leader: int, follower: int, topic: str, count: int) -> dict[str, float]:
    """From an acknowledgement at the leader's port until a consumer at the follower's port has the message."""
    delays = watermark_delays(("127.0.0.1", leader), ("127.0.0.1", follower), topic, count)
    hundredths = statistics.quantiles(delays, n=100, method="inclusive")
    return {"p50_ms": 1e3 * hundredths[49], "p99_ms": 1e3 * hundredths[98]}


def _percentiles(latencies: list[float]) -> dict[str, float]:
    hundredths = statistics.quantiles(latencies, n=100, method="inclusive")
    return {"p50_us": hundredths[49] / MICROSECOND, "p99_us": hundredths[98] / MICROSECOND}
