"""Nodes for tests of links: a simulated network, and other ends that say what the test wants."""

from __future__ import annotations

import asyncio
import datetime
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse

from chronik.core.errors import Code
from chronik.node.net.peers import Peers, Unreachable
from chronik.node.runtime.deadlines import Deadlines
from chronik.sim.chance import SimChance
from chronik.sim.loop import SimLoop
from chronik.sim.network import SimListener, SimNetwork, SimTransport, Wires
from chronik.sim.story import WorldStory
from chronik.trace.metrics import Metrics
from chronik.wire.codec import encode_response
from chronik.wire.framing import RequestHeader, read_header
from chronik.wire.versions import API_VERSIONS, APIS
from tests.unit.wire.messages import filled, request_type, response_type

PORT = 9092
HEARTBEAT = 12
LIST_GROUPS = 16


class Other(asyncio.Protocol):
    """The other end of one connection: answers ApiVersions, keeps the rest; the test answers."""

    def __init__(self, node: OtherNode) -> None:
        self.node = node
        self.transport: SimTransport | None = None
        self.received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport
        self.node.connections.append(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        while len(self.received) >= 4:
            (size,) = struct.unpack_from(">i", self.received)
            if len(self.received) < 4 + size:
                return
            frame = bytes(self.received[4 : 4 + size])
            del self.received[: 4 + size]
            header = read_header(frame)
            if header.api_key == API_VERSIONS and self.node.greets:
                self.say(encode_response(API_VERSIONS, header.version, header.correlation_id, self.node.versions()))
            else:
                self.node.heard.append((header, frame))
                self.node.hear(self, header, frame)

    def say(self, content: bytes) -> None:
        assert self.transport is not None
        self.transport.write(content)

    def hang_up(self) -> None:
        assert self.transport is not None
        self.transport.close()


class OtherNode:
    """A node at the other end of links. `hear` is what it does with a request: nothing, unless the test says so."""

    def __init__(self, wires: Wires, node_id: int) -> None:
        self.host = f"node{node_id}"
        self.network = SimNetwork(wires, self.host)
        self.connections: list[Other] = []
        self.heard: list[tuple[RequestHeader, bytes]] = []
        self.hear: Callable[[Other, RequestHeader, bytes], None] = lambda other, header, frame: None
        self.ranges = {api.key: (api.lowest, api.highest) for api in APIS.values()}
        self.greets = True
        self.code = Code.NONE
        self.listener: SimListener | None = None

    def versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code=self.code,
            api_keys=tuple(
                ApiVersion(api_key=key, min_version=a, max_version=b) for key, (a, b) in self.ranges.items()
            ),
            throttle_time=datetime.timedelta(0),
        )

    async def start(self) -> None:
        self.listener = await self.network.listen(self.host, PORT, lambda: Other(self))

    async def stop(self) -> None:
        assert self.listener is not None
        await self.listener.close()

    @property
    def last(self) -> Other:
        return self.connections[-1]


class World:
    """Node 1, whose links are tested, and node 2, which does not listen yet."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.wires = Wires(loop, SimChance(7, "wires"), WorldStory(loop.time))
        self.metrics = Metrics()
        self.deadlines = Deadlines(loop, self.metrics)
        self.addresses: dict[int, tuple[str, int]] = {2: ("node2", PORT), 3: ("node3", PORT)}
        self.peers = Peers(
            SimNetwork(self.wires, "node1"),
            self.deadlines,
            self.metrics,
            1,
            lambda node_id: self.addresses.get(node_id),
        )
        self.two = OtherNode(self.wires, 2)
        self.refused: list[int] = []
        self.peers.listen_for_refusals(self.refused.append)


def in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs the test on a simulated loop. Nothing may be left behind, and nothing may have gone wrong unnoticed."""

    def wrapped() -> None:
        loop = SimLoop()
        problems: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: problems.append(context))
        world = World(loop)

        async def through() -> None:
            await world.two.start()
            await test(world)
            world.peers.close()
            await pass_time(5)
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert left == []
            assert [ours for ours, _ in world.wires.connections if not ours.is_closing()] == []

        try:
            loop.run_until_complete(through())
        finally:
            loop.close()
        assert problems == []
        assert [entry for entry in world.deadlines._heap if entry[2].action is not None] == []

    wrapped.__name__ = test.__name__
    wrapped.__doc__ = test.__doc__
    return wrapped


def a_request(api_key: int = HEARTBEAT) -> Any:
    return filled(request_type(api_key, APIS[api_key].highest), "full")


def a_response(api_key: int = HEARTBEAT) -> Any:
    return filled(response_type(api_key, APIS[api_key].highest), "full")


def echo(other: Other, header: RequestHeader, frame: bytes) -> None:
    """Answers anything with a response full of values."""
    other.say(encode_response(header.api_key, header.version, header.correlation_id, a_response(header.api_key)))


async def pass_time(seconds: float) -> None:
    """Simulated time."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


async def problem_of(answer: asyncio.Future[Any]) -> str:
    """In words, what it failed with."""
    with pytest.raises(Unreachable) as caught:
        await answer
    return str(caught.value)
