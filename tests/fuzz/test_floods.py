"""Many connections that want nothing, or too much at once, to real nodes with bare sockets: others notice nothing.

Small forms of what bench row B17 measures.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Producer

from chronik.testing import RunningNode, cluster, node
from tests.fuzz.bystander import Bystander
from tests.fuzz.requests import header, sized
from tests.fuzz.scrape import metric

MEGABYTE = 1024 * 1024
TIMEOUT_S = 30.0
METADATA = 3
OTHER_ADDRESS = "127.0.0.2"  # of this machine too
IDLE, SLOW = 300, 60


@contextmanager
def flood(
    running: RunningNode, count: int, content: bytes = b"", source: str = "127.0.0.1"
) -> Iterator[list[socket.socket]]:
    """So many connections, each of which has sent this and no more."""
    with ExitStack() as stack:
        opened: list[socket.socket] = []
        for _ in range(count):
            connected = socket.create_connection((running.host, running.port), TIMEOUT_S, source_address=(source, 0))
            opened.append(stack.enter_context(connected))
            if content:
                try:
                    connected.sendall(content)
                except OSError:  # turned away already
                    continue
        yield opened


def resident_bytes(running: RunningNode) -> int:
    return psutil.Process(running.pid).memory_info().rss


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}"


def is_answered(connected: socket.socket) -> bool:
    """Whether the node still talks to this connection."""
    try:
        connected.sendall(sized(header(METADATA, 1, 7) + struct.pack(">i", 0)))
        return len(connected.recv(4, socket.MSG_WAITALL)) == 4
    except OSError:
        return False


def is_closed(connected: socket.socket) -> bool:
    try:
        return connected.recv(1) == b""
    except OSError:
        return True


def test_others_are_served_through_a_flood_and_half_requests_take_no_memory() -> None:
    half_a_request = struct.pack(">i", 100 * MEGABYTE) + bytes(1000)
    with node() as running, Bystander(running.bootstrap) as other:
        wait_until(lambda: len(other.acknowledged) > 10, "the other client is at work")
        before_bytes = resident_bytes(running)
        with flood(running, IDLE) as idle, flood(running, SLOW, half_a_request) as slow:
            assert len(idle) + len(slow) == IDLE + SLOW
            wait_until(lambda: metric(running, "chronik_connections") >= IDLE + SLOW, "all of them are there")
            acknowledged = len(other.acknowledged)
            wait_until(lambda: len(other.acknowledged) >= acknowledged + 50, "the other client goes on")
            # 360 connections; the requests alone promised 6 GB.
            assert resident_bytes(running) - before_bytes < 24 * MEGABYTE
            assert all(is_answered(connected) for connected in idle[:20])
        wait_until(lambda: metric(running, "chronik_connections") < 20, "they are gone")
        assert metric(running, "chronik_request_bytes") < MEGABYTE
        assert metric(running, "chronik_faults_total") == 0
    assert other.problems == []
    assert sorted(other.consumed) == sorted(other.acknowledged)


def test_an_address_has_no_more_connections_than_it_may_and_others_are_not_concerned() -> None:
    settings = {"max.connections.per.ip.overrides": f"{OTHER_ADDRESS}:20"}
    with node(settings) as running, Bystander(running.bootstrap) as other:
        with flood(running, 200, source=OTHER_ADDRESS) as opened:
            served = [is_answered(connected) for connected in opened]
            assert served == [number < 20 for number in range(200)]
            assert metric(running, "chronik_connections_refused_total") >= 180
        wait_until(lambda: metric(running, "chronik_connections") < 20, "they are gone")
        with flood(running, 20, source=OTHER_ADDRESS) as again:
            assert all(is_answered(connected) for connected in again)
        assert Path(running.log_path).read_text().count("turning connections away") == 1
    assert other.problems == []


def test_what_has_begun_and_does_not_go_on_is_closed_and_so_is_what_is_idle() -> None:
    hurried = {"connections.max.idle.ms": "-1", "chronik.unfinished.request.timeout.ms": "500"}
    tidy = {"connections.max.idle.ms": "500"}
    half_a_request = struct.pack(">i", 1000) + b"half"
    with node(hurried) as first, node(tidy) as second:
        with (
            flood(first, 10) as silent,
            flood(first, 10, half_a_request) as half,
            flood(second, 10) as idle,
            flood(second, 10, half_a_request) as both,
        ):
            assert all(is_closed(connected) for connected in (*half, *idle, *both))
            assert all(is_answered(connected) for connected in silent)
        assert metric(first, "chronik_connections_given_up_total") == 10
        assert metric(second, "chronik_connections_idle_total") == 20
        assert metric(first, "chronik_faults_total") + metric(second, "chronik_faults_total") == 0


def test_requests_of_all_clients_together_keep_to_their_memory() -> None:
    settings = {"queued.max.request.bytes": f"{8 * MEGABYTE}", "socket.request.max.bytes": f"{8 * MEGABYTE}"}
    half_a_request = struct.pack(">i", 7 * MEGABYTE) + bytes(3 * MEGABYTE)
    with node(settings) as running, Bystander(running.bootstrap) as other:
        wait_until(lambda: len(other.acknowledged) > 10, "the other client is at work")
        before_bytes = resident_bytes(running)
        with ExitStack() as stack:
            for _ in range(40):  # 120 MB that never become requests; what is not read stays in the sockets
                connected = stack.enter_context(socket.create_connection((running.host, running.port), TIMEOUT_S))
                connected.setblocking(False)
                try:
                    connected.send(half_a_request)
                except OSError:
                    continue
            acknowledged = len(other.acknowledged)
            wait_until(lambda: len(other.acknowledged) >= acknowledged + 20, "the other client goes on")
            assert resident_bytes(running) - before_bytes < 48 * MEGABYTE
        wait_until(lambda: metric(running, "chronik_request_bytes") < MEGABYTE, "all of it is given back")
        assert metric(running, "chronik_faults_total") == 0
    assert other.problems == []


def test_a_flood_of_clients_does_not_keep_a_node_out_of_its_cluster() -> None:
    """The clients have all connections there are; a node that comes back still reaches the others and is in sync."""
    with cluster(nodes=3, settings={"max.connections": "30"}) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "linger.ms": 0})
        producer.produce("before", b"x")
        assert producer.flush(TIMEOUT_S) == 0
        with ExitStack() as stack:
            for each in (1, 2):
                stack.enter_context(flood(running.nodes[each], 100))
            running.kill(3)
            running.restart(3)
            running.nodes[3].wait_until_ready()
            leaders = [running.nodes[each] for each in (1, 2)]
            wait_until(
                lambda: not sum(metric(each, "chronik_partitions_under_replicated") for each in leaders), "in sync"
            )
            assert sum(metric(each, "chronik_connections_of_nodes") for each in leaders) > 0
        late = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "linger.ms": 0})
        late.produce("before", b"y")
        assert late.flush(TIMEOUT_S) == 0
