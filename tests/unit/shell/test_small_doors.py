"""Clock, Chance and Network: thin, and still what their protocols say."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from typing import Any

import pytest

from chronik.shell.chance import RealChance
from chronik.shell.clock import RealClock
from chronik.shell.network import RealNetwork


def test_the_clock_tells_milliseconds() -> None:
    clock = RealClock()

    assert abs(clock.now_ms() - time.time() * 1000) < 5_000
    assert abs(clock.monotonic_ms() - time.monotonic() * 1000) < 5_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_dice_stay_below_their_bound_and_reach_every_number() -> None:
    chance = RealChance()

    thrown = {chance.below(4) for _ in range(500)}

    assert thrown == {0, 1, 2, 3}


def test_ids_are_random_uuids_and_never_the_same() -> None:
    chance = RealChance()

    made = [chance.uuid() for _ in range(100)]

    assert len(set(made)) == 100
    assert all(uuid.UUID(bytes=each).version == 4 for each in made)


class Echo(asyncio.Protocol):
    """Sends back what comes, in capitals."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, received: bytes) -> None:
        self.transport.write(received.upper())


class Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, received: bytes) -> None:
        self.answer.set_result(received)


def test_what_is_sent_to_a_listener_gets_there_and_back() -> None:
    async def run() -> bytes:
        network = RealNetwork()
        listener = await network.listen("127.0.0.1", 0, Echo)
        heard = Heard()
        transport = await network.connect(*listener.address, heard)
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"hello")
        answer = await heard.answer
        transport.close()
        await listener.close()
        return answer

    assert asyncio.run(run()) == b"HELLO"


class TwoAddresses(asyncio.SelectorEventLoop):
    """A world in which every name stands for two addresses of this machine."""

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]


def test_a_name_of_several_addresses_is_reached_at_the_one_that_listens() -> None:
    async def run() -> None:
        network = RealNetwork()
        listener = await network.listen("127.0.0.1", 0, Echo)
        transport = await network.connect("two", listener.address[1], Heard())
        assert transport.get_extra_info("peername") == listener.address
        transport.close()
        await listener.close()

    with asyncio.Runner(loop_factory=TwoAddresses) as runner:
        runner.run(run())


def test_a_connection_that_all_addresses_of_a_name_refuse_is_refused() -> None:
    """And not a sum of problems: a refusal says that a node's process is gone."""

    async def run() -> None:
        network = RealNetwork()
        listener = await network.listen("127.0.0.1", 0, Echo)
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect("two", listener.address[1], Heard())

    with asyncio.Runner(loop_factory=TwoAddresses) as runner:
        runner.run(run())
