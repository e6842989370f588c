"""How many connections there may be, and that other nodes get in all the same."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterator

import pytest

from chronik.api.call import Peer
from chronik.node.net.connection import Connections, Slot
from chronik.node.net.connection_quotas import PROBATION_MAX, UNLIMITED, ConnectionLimits, ConnectionQuotas
from tests.unit.node.connected import Client, Requests


class Guests:
    """Several connections to one node."""

    def __init__(self, limits: ConnectionLimits, connections_max: int = UNLIMITED) -> None:
        self.requests = Requests()
        self.quotas = ConnectionQuotas(lambda: limits, connections_max)
        self.all = Connections(self.requests, frame_bytes_max=1000, under_way_max=10, quotas=self.quotas)
        logging.disable(logging.WARNING)

    def come(self, host: str = "10.0.0.7") -> Client:
        client = Client(among=self.all, host=host)
        client.requests = self.requests
        return client


@pytest.fixture
def _loud_again() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


NODES_HELLO = struct.pack(">h", 18) + b"node"


def say_node(client: Client) -> None:
    """Its first request, after which dispatch knows it for a node."""
    requests, start = client.requests, client.requests.start

    def start_as_node(frame: memoryview, peer: Peer, answer: Slot) -> bool:
        peer.is_node = True
        return start(frame, peer, answer)

    requests.start = start_as_node  # type: ignore[method-assign]
    client.send(NODES_HELLO)
    requests.start = start  # type: ignore[method-assign]


@pytest.mark.usefixtures("_loud_again")
def test_a_client_over_the_limit_is_closed_before_what_it_asks_is_begun() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(open_max=1))
        first, second = guests.come(), guests.come()
        second.send(b"o2")
        first.send(b"o1")

        assert second.transport.is_closing()
        assert guests.requests.begun == [b"o1"]
        assert guests.quotas.refused_total == 1

    asyncio.run(run())


@pytest.mark.usefixtures("_loud_again")
def test_a_client_over_the_limit_that_says_hello_as_clients_do_is_closed() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(open_max=0))
        client = guests.come()
        client.send(NODES_HELLO)  # ApiVersions, and dispatch does not find that it is a node

        assert client.transport.is_closing()
        assert guests.quotas.refused_total == 1

    asyncio.run(run())


@pytest.mark.usefixtures("_loud_again")
def test_a_node_over_the_limit_stays_and_takes_no_clients_place() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(open_max=1))
        client, node = guests.come(), guests.come()
        say_node(node)
        node.send(b"o1")

        assert not node.transport.is_closing()
        assert not client.transport.is_closing()
        assert guests.requests.begun == [NODES_HELLO, b"o1"]
        assert guests.quotas.nodes_open == 1

    asyncio.run(run())


@pytest.mark.usefixtures("_loud_again")
def test_a_flood_of_silent_connections_does_not_keep_a_node_out() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(open_max=1))
        guests.come()
        flood = [guests.come() for _ in range(3 * PROBATION_MAX)]
        node = guests.come()
        say_node(node)

        assert not node.transport.is_closing()
        assert sum(not silent.transport.is_closing() for silent in flood) < PROBATION_MAX

    asyncio.run(run())


@pytest.mark.usefixtures("_loud_again")
def test_one_address_has_its_own_limit_and_some_another() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(per_host_max=1, per_host={"10.0.0.9": 2}))
        clients = [guests.come(host) for host in ("10.0.0.7", "10.0.0.8", "10.0.0.7", *3 * ("10.0.0.9",))]
        for client in clients:
            client.send(b"o1")
        assert [client.transport.is_closing() for client in clients] == [False, False, True, False, False, True]

        clients[0].connection.connection_lost(None)
        again = guests.come("10.0.0.7")
        again.send(b"o1")

        assert not again.transport.is_closing()

    asyncio.run(run())


@pytest.mark.usefixtures("_loud_again")
def test_connections_stay_below_what_there_are_descriptors_for() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(), connections_max=8)
        clients = [guests.come() for _ in range(20)]

        assert sum(not client.transport.is_closing() for client in clients) == 8
        assert guests.quotas.open_max == 6

    asyncio.run(run())


@pytest.mark.usefixtures("_loud_again")
def test_when_nodes_need_room_the_client_that_was_silent_longest_goes() -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(), connections_max=8)
        clients = [guests.come() for _ in range(6)]
        clients[3].connection.used_at -= 100
        node = guests.come()
        say_node(node)

        assert not node.transport.is_closing()
        assert [client.transport.is_closing() for client in clients] == [False, False, False, True, False, False]

    asyncio.run(run())


def test_a_flood_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        guests = Guests(ConnectionLimits(open_max=1))
        logging.disable(logging.NOTSET)
        for _ in range(500):
            guests.come()

    asyncio.run(run())

    # What an earlier test left to the collector may be complained of by asyncio meanwhile.
    assert [record.getMessage() for record in caplog.records if record.name.startswith("chronik.")] == [
        "turning connections away, the last from 10.0.0.7: there are 1 connections (max.connections)"
    ]
