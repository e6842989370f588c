"""Connections in memory: ordered, late, cut, reset, half-open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.sim.chance import SimChance
from chronik.sim.loop import SimLoop
from chronik.sim.network import HIGH_WATER_BYTES, SimNetwork, SimTransport, Wires
from chronik.sim.story import WorldStory


class End(asyncio.Protocol):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.paused: list[bool] = []
        self.transport: SimTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


class Pair:
    """A client and a server that it is connected to."""

    def __init__(self, wires: Wires) -> None:
        self.wires = wires
        self.client, self.server = End(), End()

    async def open(self) -> None:
        await SimNetwork(self.wires, "server").listen("server", 9092, lambda: self.server)
        await SimNetwork(self.wires, "client").connect("server", 9092, self.client)

    def say(self, content: bytes) -> None:
        assert self.client.transport is not None
        self.client.transport.write(content)


def run(test: Callable[[Pair], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        loop = SimLoop()
        wires = Wires(loop, SimChance(3, "wires"), WorldStory(loop.time))

        async def with_pair() -> None:
            pair = Pair(wires)
            await pair.open()
            await test(pair)

        try:
            loop.run_until_complete(with_pair())
        finally:
            loop.close()

    wrapped.__name__ = test.__name__
    return wrapped


async def pass_time(seconds: float) -> None:
    """Simulated time."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


@run
async def test_bytes_arrive_later_and_in_order(pair: Pair) -> None:
    sent = bytes(range(256)) * 500
    for start in range(0, len(sent), 1000):
        pair.say(sent[start : start + 1000])
    assert pair.server.received == b""

    await pass_time(5)

    assert pair.server.received == sent


@run
async def test_what_a_cut_wire_holds_back_arrives_when_it_is_whole_again(pair: Pair) -> None:
    pair.wires.mood("client", "server").is_cut = True
    pair.say(b"hello")
    await pass_time(5)
    assert pair.server.received == b""

    pair.wires.heal()
    await pass_time(1)

    assert pair.server.received == b"hello"


@run
async def test_a_cut_may_go_one_way_only(pair: Pair) -> None:
    pair.wires.mood("server", "client").is_cut = True
    pair.say(b"hello")
    await pass_time(1)
    assert pair.server.transport is not None
    pair.server.transport.write(b"answer")
    await pass_time(1)

    assert (bytes(pair.server.received), bytes(pair.client.received)) == (b"hello", b"")


@run
async def test_a_close_is_heard_after_what_was_written_before_it(pair: Pair) -> None:
    pair.say(b"last words")
    assert pair.client.transport is not None
    pair.client.transport.close()

    await pass_time(1)

    assert pair.server.received == b"last words"
    assert (pair.client.lost, pair.server.lost) == ([None], [None])


@run
async def test_a_host_without_power_says_nothing_until_it_is_back(pair: Pair) -> None:
    await pass_time(1)
    pair.wires.host_lost_power("server")
    pair.say(b"anybody?")
    await pass_time(60)
    assert (pair.client.lost, pair.server.lost) == ([], [])

    await SimNetwork(pair.wires, "server").listen("server", 9092, End)
    pair.say(b"and now?")
    await pass_time(1)

    assert isinstance(pair.client.lost[0], ConnectionResetError)


@run
async def test_when_a_process_dies_its_peers_hear_of_it(pair: Pair) -> None:
    await pass_time(1)

    pair.wires.process_died("server")
    await pass_time(1)

    assert pair.client.lost == [None]
    with pytest.raises(ConnectionRefusedError):
        await SimNetwork(pair.wires, "client").connect("server", 9092, End())


@run
async def test_whoever_writes_too_much_is_told_to_wait(pair: Pair) -> None:
    pair.say(bytes(HIGH_WATER_BYTES + 1))
    assert pair.client.paused == [True]

    await pass_time(5)

    assert pair.client.paused == [True, False]


@run
async def test_nothing_is_given_to_one_who_does_not_read(pair: Pair) -> None:
    await pass_time(1)
    assert pair.server.transport is not None
    pair.server.transport.pause_reading()
    pair.say(b"hello")
    await pass_time(1)
    assert pair.server.received == b""

    pair.server.transport.resume_reading()
    await pass_time(1)

    assert pair.server.received == b"hello"


@run
async def test_a_reset_may_be_heard_at_one_end_only(pair: Pair) -> None:
    await pass_time(1)
    assert pair.client.transport is not None

    pair.client.transport.reset()
    await pass_time(5)

    assert isinstance(pair.client.lost[0], ConnectionResetError)
    assert pair.server.lost == []


class Always(SimChance):
    """What may happen happens."""

    def happens(self, probability: float) -> bool:
        return probability > 0


class Never(SimChance):
    def happens(self, probability: float) -> bool:
        return False


@run
async def test_what_was_given_up_may_arrive_after_it_was_said_again_on_another_connection(pair: Pair) -> None:
    heard: list[bytes] = []

    class Hearing(End):
        def data_received(self, data: bytes) -> None:
            heard.append(data)

    await SimNetwork(pair.wires, "server").listen("server", 9093, Hearing)
    pair.wires.strays = Always(3, "strays")
    first, second = End(), End()
    await SimNetwork(pair.wires, "client").connect("server", 9093, first)
    assert first.transport is not None
    first.transport.write(b"the first copy")

    first.transport.abort()
    await SimNetwork(pair.wires, "client").connect("server", 9093, second)
    assert second.transport is not None
    second.transport.write(b"the second copy")
    await pass_time(10)

    assert heard == [b"the second copy", b"the first copy"]
    assert first.lost == [None]


@run
async def test_what_was_given_up_and_does_not_stray_is_lost(pair: Pair) -> None:
    pair.wires.strays = Never(3, "strays")
    pair.say(b"never heard")
    assert pair.client.transport is not None

    pair.client.transport.abort()
    await pass_time(10)

    assert pair.server.received == b""
    assert pair.server.lost == [None]


@run
async def test_who_is_told_of_a_reset_may_have_been_heard_all_the_same(pair: Pair) -> None:
    pair.wires.strays = Always(3, "strays")
    pair.say(b"late")
    assert pair.client.transport is not None

    pair.client.transport.reset()
    await pass_time(10)

    assert isinstance(pair.client.lost[0], ConnectionResetError)
    assert pair.server.received == b"late"


@run
async def test_nobody_refuses_where_there_is_no_power(pair: Pair) -> None:
    pair.wires.host_lost_power("server")

    with pytest.raises(TimeoutError):
        await SimNetwork(pair.wires, "client").connect("server", 9092, End())


@run
async def test_a_lossy_wire_takes_its_time_and_keeps_the_order_until_it_gives_up(pair: Pair) -> None:
    pair.wires.mood("client", "server").loss = 0.5
    sent = bytes(range(256)) * 1000
    for start in range(0, len(sent), 1000):
        pair.say(sent[start : start + 1000])

    await pass_time(1000)

    assert sent.startswith(bytes(pair.server.received))
    assert 0 < len(pair.server.received) < len(sent)
    assert isinstance(pair.client.lost[0], ConnectionResetError)
    assert isinstance(pair.server.lost[0], ConnectionResetError)
