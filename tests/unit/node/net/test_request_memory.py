"""Requests of all clients together take only so much memory, and the order in which they wait for it is fair."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from chronik.api.call import Peer
from chronik.node.net.connection import Connection, Connections, Slot
from chronik.node.net.request_memory import PATIENT, REQUEST_OVERHEAD_BYTES, Pace
from chronik.wire.framing import LARGE_BYTES, SHARED_BYTES
from tests.unit.node.fakes import FakeTransport

LIMIT_BYTES = 8_000_000
FRAME_BYTES_MAX = 32_000_000


class Purgatory:
    """Stands for dispatch: nothing is answered until the test says so."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.sizes: list[int] = []

    def start(self, frame: memoryview, peer: Peer, answer: Slot) -> bool:
        self.slots.append(answer)
        self.sizes.append(len(frame))
        return True

    def answer_oldest(self) -> None:
        self.slots.pop(0)((b"done",))


class World:
    """A node's connections with a small budget, and clients that send as far as they are read."""

    def __init__(self, pace: Pace = PATIENT) -> None:
        self.requests = Purgatory()
        self.all = Connections(
            self.requests,
            frame_bytes_max=FRAME_BYTES_MAX,
            under_way_max=100,
            request_bytes_max=LIMIT_BYTES,
            pace=pace,
        )
        self.memory = self.all.memory

    def client(self) -> Client:
        return Client(self.all)


class Client:
    """One connection, and what it still has to send."""

    def __init__(self, among: Connections) -> None:
        self.connection: Connection = among.accept()
        self.transport = FakeTransport()
        self.connection.connection_made(cast(Any, self.transport))
        self._unsent = b""

    def send(self, *sizes: int) -> None:
        """Requests of these sizes."""
        self.send_raw(b"".join(struct.pack(">i", size) + bytes(size) for size in sizes))

    def send_raw(self, content: bytes = b"") -> None:
        self._unsent += content
        while self._unsent and self.transport.reading and self.transport.is_open:
            space = self.connection.get_buffer(-1)
            count = min(len(space), len(self._unsent))
            space[:count] = self._unsent[:count]
            self._unsent = self._unsent[count:]
            self.connection.buffer_updated(count)

    @property
    def has_sent_all(self) -> bool:
        return not self._unsent


def in_loop(test: Callable[[World], Any]) -> Callable[[], None]:
    async def run() -> None:
        await test(World())

    def wrapped() -> None:
        asyncio.run(run())

    wrapped.__name__ = test.__name__
    return wrapped


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@in_loop
async def test_what_is_answered_is_given_back_to_the_byte(world: World) -> None:
    client = world.client()
    client.send(10, 70_000, 300)
    assert world.memory.used_bytes == 70_310 + 3 * REQUEST_OVERHEAD_BYTES

    for _ in range(3):
        world.requests.answer_oldest()

    assert world.memory.used_bytes == 0


@in_loop
async def test_what_a_client_held_is_given_back_when_it_goes(world: World) -> None:
    client = world.client()
    client.send(10, 70_000)
    client.send_raw(struct.pack(">i", 1_000_000) + bytes(200_000))
    assert world.memory.unfinished_bytes >= 200_000

    client.connection.connection_lost(None)
    world.requests.answer_oldest()

    assert (world.memory.used_bytes, world.memory.unfinished_bytes) == (0, 0)


@in_loop
async def test_a_promised_size_takes_nothing(world: World) -> None:
    clients = [world.client() for _ in range(100)]
    for client in clients:
        client.send_raw(struct.pack(">i", FRAME_BYTES_MAX) + bytes(10))

    assert world.memory.used_bytes == 100 * 14
    assert all(client.transport.reading for client in clients)


@in_loop
async def test_over_the_budget_clients_are_read_no_further(world: World) -> None:
    """Over the budget clients are read no further and go on in the order they came."""
    first, second, third = (world.client() for _ in range(3))
    first.send(*5 * (3_000_000,))
    second.send(200_000)
    third.send(300_000)
    assert world.requests.sizes == 3 * [3_000_000]
    assert not any(client.transport.reading for client in (first, second, third))

    while world.requests.slots:
        world.requests.answer_oldest()
        for client in (first, second, third):  # each has more to send, and sends it when it is read
            client.send_raw()

    assert first.has_sent_all
    assert second.has_sent_all
    assert third.has_sent_all
    assert sorted(world.requests.sizes[3:]) == [200_000, 300_000, 3_000_000, 3_000_000]
    assert world.memory.used_bytes == 0
    assert world.memory.waiting == 0


@in_loop
async def test_the_client_that_has_waited_longest_is_read_first(world: World) -> None:
    world.client().send(*3 * (3_000_000,))
    waiting = [world.client() for _ in range(40)]
    for client in waiting:
        client.send(10)
        assert not client.transport.reading
    room_for = (3_000_000 - (world.memory.used_bytes - LIMIT_BYTES)) // SHARED_BYTES + 1

    world.requests.answer_oldest()

    assert 0 < room_for < 40
    assert [client.transport.reading for client in waiting] == [number < room_for for number in range(40)]


@in_loop
async def test_another_nodes_requests_are_neither_counted_nor_held_up(world: World) -> None:
    world.client().send(*3 * (4_000_000,))
    assert world.memory.used_bytes >= LIMIT_BYTES
    before = world.memory.used_bytes
    node = world.client()
    node.connection._peer.is_node = True

    node.send(800_000, 10)

    assert world.requests.sizes[-2:] == [800_000, 10]
    assert world.memory.used_bytes == before
    assert node.transport.reading


@in_loop
async def test_half_read_requests_that_fill_the_budget_do_not_stop_everybody(world: World) -> None:
    halves = [world.client() for _ in range(4)]
    for half in halves:
        half.send_raw(struct.pack(">i", 5_000_000) + bytes(2_500_000))
    assert world.memory.unfinished_bytes >= LIMIT_BYTES
    clients = [*halves, world.client()]
    clients[-1].send(500)
    for half in halves:
        half.send_raw(bytes(2_500_000))

    for _ in range(20):
        for client in clients:
            client.send_raw()
        if world.requests.slots:
            world.requests.answer_oldest()

    assert sorted(world.requests.sizes) == [500, *4 * [5_000_000]]


@in_loop
async def test_no_turn_is_given_while_whole_requests_hold_it_all(world: World) -> None:
    """Else each turn would add a request, without end."""
    world.client().send(5_000_000, 5_000_000)
    others = [world.client() for _ in range(20)]
    for other in others:
        other.send(3_000_000)

    assert world.requests.sizes == [5_000_000, 5_000_000]
    assert world.memory.used_bytes < LIMIT_BYTES + 5_000_000 + 20 * LARGE_BYTES


@in_loop
async def test_small_requests_go_on_while_halves_of_others_take_it_all(world: World) -> None:
    for _ in range(6):
        world.client().send_raw(struct.pack(">i", 5_000_000) + bytes(2_500_000))
    assert world.memory.unfinished_bytes >= LIMIT_BYTES
    small = world.client()

    small.send(*5 * (1_000,))
    small.send(1_000)

    assert world.requests.sizes == 6 * [1_000]
    assert small.transport.reading


@in_loop
async def test_beginnings_of_very_many_requests_are_bounded_too(world: World) -> None:
    clients = [world.client() for _ in range(1200)]
    for client in clients:
        client.send_raw(struct.pack(">i", 5_000_000) + bytes(60_000))

    assert world.memory.used_bytes <= LIMIT_BYTES + FRAME_BYTES_MAX + LARGE_BYTES
    assert sum(client.transport.is_closing() for client in clients) > 0


def test_while_others_wait_a_request_that_does_not_go_on_is_given_up() -> None:
    async def run() -> None:
        world = World(Pace(look_s=0.001, stalled_s=0.002))
        halves = [world.client() for _ in range(4)]
        for half in halves:
            half.send_raw(struct.pack(">i", 5_000_000) + bytes(2_500_000))
        late = world.client()
        late.send(200_000)
        async with asyncio.timeout(10):
            while not late.has_sent_all:
                await asyncio.sleep(0)
                late.send_raw()

        assert world.requests.sizes == [200_000]
        assert world.memory.given_up_total == sum(half.transport.is_closing() for half in halves) > 0
        assert not late.transport.is_closing()

    asyncio.run(run())


def test_when_nothing_is_answered_the_client_with_most_under_way_goes() -> None:
    async def run() -> None:
        world = World(Pace(look_s=0.001, stuck_s=0.005))
        greedy = world.client()
        greedy.send(5_000_000, 5_000_000)
        late = world.client()
        late.send(100_000)
        async with asyncio.timeout(10):
            while not late.has_sent_all:
                await asyncio.sleep(0)
                late.send_raw()

        assert greedy.transport.is_closing()
        assert not late.transport.is_closing()

    asyncio.run(run())
