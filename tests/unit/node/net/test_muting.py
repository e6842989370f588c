"""A client over a quota has its answer at once, and is not read from until it has waited (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.quotas.connection_rates import ConnectionRates
from chronik.core.quotas.limits import QuotaLimits
from chronik.node.net.connection import Connections
from chronik.node.net.connection_quotas import ConnectionLimits, ConnectionQuotas
from tests.unit.node.connected import Client, Requests, with_client


@with_client()
async def test_the_answer_leaves_and_what_comes_behind_it_waits(client: Client) -> None:
    client.send(b"o1")
    client.requests.peers[0].throttle_ms = 50
    client.requests.answer(b"o1")
    assert await client.received() == b"o1"
    assert not client.transport.is_reading()

    client.send(b"n2", b"n3")  # it was on its way already
    assert client.requests.begun == [b"o1"]
    assert await client.received() == b"o1"
    await _until(lambda: client.requests.begun == [b"o1", b"n2", b"n3"])
    assert await client.received() == b"o1n2n3"
    assert client.transport.is_reading()


@with_client()
async def test_of_two_waits_the_longer_counts(client: Client) -> None:
    client.send(b"o1", b"o2", b"o3")
    peer = client.requests.peers[0]
    for name, wait_ms in ((b"o1", 20), (b"o2", 60_000), (b"o3", 10)):
        peer.throttle_ms = wait_ms
        client.requests.answer(name)
    assert await client.received() == b"o1o2o3"  # what was begun is answered
    [due] = [handle for handle in _timers() if handle.when() - asyncio.get_running_loop().time() > 1]
    assert due.when() - asyncio.get_running_loop().time() > 50
    assert not client.transport.is_reading()


@with_client()
async def test_a_muted_client_that_goes_leaves_nothing_behind(client: Client) -> None:
    client.send(b"o1")
    client.requests.peers[0].throttle_ms = 10
    client.requests.answer(b"o1")
    assert _timers()
    client.connection.connection_lost(None)
    assert not _timers()
    assert client.all.open == {}


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(10_000_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


def _timers() -> list[Any]:
    loop: Any = asyncio.get_running_loop()
    return [handle for handle in loop._scheduled if not handle.cancelled()]


def many(limits: ConnectionLimits, by_address: float | None = None) -> Connections:
    quotas = QuotaLimits()
    if by_address is not None:
        quotas.set((("ip", None),), "connection_creation_rate", by_address)
    rates = ConnectionRates(quotas, QuotasConfig(quota_window_num=2))
    counted = ConnectionQuotas(lambda: limits, rates=rates, now_ms=lambda: 0)
    return Connections(Requests(), frame_bytes_max=1000, under_way_max=10, quotas=counted)


def test_more_connections_than_the_rate_are_taken_and_wait() -> None:
    async def go() -> None:
        everyone = many(ConnectionLimits(rates={"": 2}))
        clients = [Client(among=everyone) for _ in range(3)]
        assert [client.transport.is_reading() for client in clients] == [True, True, False]
        assert everyone.quotas.delayed_total == 1
        assert not clients[2].transport.is_closing()

    asyncio.run(go())


def test_an_address_that_opens_too_many_at_once_is_turned_away() -> None:
    async def go() -> None:
        everyone = many(ConnectionLimits(), by_address=2)
        clients = [Client(among=everyone) for _ in range(3)]
        other = Client(among=everyone, host="10.0.0.8")
        for client in (*clients, other):
            client.send(b"o1")
        assert [client.transport.is_closing() for client in clients] == [False, False, True]
        assert not other.transport.is_closing()
        assert everyone.quotas.refused_total == 1

    asyncio.run(go())


def test_a_listener_has_a_number_of_its_own() -> None:
    async def go() -> None:
        everyone = many(ConnectionLimits(per_listener={"PLAINTEXT": 1}))
        first, second = Client(among=everyone), Client(among=everyone)
        second.send(b"o1")
        assert (first.transport.is_closing(), second.transport.is_closing()) == (False, True)
        first.connection.connection_lost(None)
        assert not Client(among=everyone).transport.is_closing()

    asyncio.run(go())


def test_the_nodes_own_listener_is_spared_by_limits_of_the_whole_node() -> None:
    async def go() -> None:
        everyone = many(ConnectionLimits(open_max=0, rates={"": 1}, spared=frozenset(("PLAINTEXT",))))
        clients = [Client(among=everyone) for _ in range(3)]
        assert all(client.transport.is_reading() for client in clients)

    asyncio.run(go())
