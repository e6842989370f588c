"""A job of one client that asks in peace, then among very many connections of others."""

from __future__ import annotations

import resource
import socket
import statistics
import struct
import time
from contextlib import ExitStack

from tests.bench.client.raw import Connection, metadata_request, open_connection, produce_request
from tests.bench.systems.system import resident_megabytes

SPARE_DESCRIPTORS = 100
ACTIVE_EACH_TURN = 20
VALUE_BYTES = 100


def among_others(
    port: int, node_pid: int, topic: str, count: int, idle: int, active: int, slow: int, promised_bytes: int
) -> dict[str, float]:
    """Durations of `count` one-record requests, one at a time, acks=1: in peace, and with the others there. The active
    ones ask in turn for metadata, the slow ones have promised a request of `promised_bytes` and sent a little of it."""
    wanted = idle + active + slow + SPARE_DESCRIPTORS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < wanted else max(wanted, 1024), hard))
    connection = open_connection(port, topic)
    request = produce_request(topic, VALUE_BYTES, acks=1)
    connection.ask_until_taken(request)
    _durations_us(connection, request, count)  # warm
    quiet_us = _durations_us(connection, request, count)
    with ExitStack() as stack:
        there = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(idle + active + slow)
        ]
        for each in there[idle + active :]:
            each.sendall(struct.pack(">i", promised_bytes) + bytes(1000))
        asked = metadata_request(topic)
        busy = there[idle : idle + active]
        for each in busy:
            _ask(each, asked)
        crowded_us: list[float] = []
        turn = 0
        while len(crowded_us) < count:
            batch = [busy[(turn + number) % active] for number in range(min(ACTIVE_EACH_TURN, active))]
            turn += len(batch)
            for each in batch:
                each.sendall(asked)
            crowded_us += _durations_us(connection, request, 5)
            for each in batch:
                _take_answer(each)
        resident_mb = resident_megabytes(node_pid)
    quiet_p99, crowded_p99 = (
        statistics.quantiles(each, n=100, method="inclusive")[98] for each in (quiet_us, crowded_us)
    )
    return {
        "quiet_p99_us": quiet_p99,
        "p99_us": crowded_p99,
        "p99_ratio": crowded_p99 / quiet_p99,
        "resident_mb": resident_mb,
    }


def _durations_us(connection: Connection, request: bytes, count: int) -> list[float]:
    durations: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        connection.ask(request)
        durations.append(1e6 * (time.perf_counter() - started))
    return durations


def _ask(each: socket.socket, request: bytes) -> None:
    each.sendall(request)
    _take_answer(each)


def _take_answer(each: socket.socket) -> None:
    (size,) = struct.unpack(">i", each.recv(4, socket.MSG_WAITALL))
    each.recv(size, socket.MSG_WAITALL)
