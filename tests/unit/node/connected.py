"""A connection of a node over a transport that is none, and what its client sees."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

from chronik.api.call import Peer
from chronik.node.net.connection import Connection, Connections, Slot
from chronik.wire.errors import Malformed
from tests.unit.node.fakes import FakeTransport

OVERLAPPING, BARRIER, AT_ONCE, BAD, HANG_UP = b"o", b"b", b"n", b"x", b"h"


class Requests:
    """Stands for dispatch: keeps what was begun; the first byte of a request says how it behaves."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.slots: dict[bytes, Slot] = {}
        self.peers: list[Peer] = []

    def start(self, frame: memoryview, peer: Peer, answer: Slot) -> bool:
        content = bytes(frame)
        if content[:1] == BAD:
            raise Malformed("no request")
        self.begun.append(content)
        self.peers.append(peer)
        self.slots[content] = answer
        if content[:1] == AT_ONCE:
            answer((content,))
        if content[:1] == HANG_UP:
            answer(None)
        return content[:1] != BARRIER

    def answer(self, *contents: bytes) -> None:
        for content in contents:
            self.slots[content]((content,))


class Client:
    """A connection, and what its client sees."""

    def __init__(
        self,
        under_way_max: int = 100,
        frame_bytes_max: int = 10_000_000,
        among: Connections | None = None,
        host: str = "10.0.0.7",
    ) -> None:
        self.requests = Requests()
        self.all = among or Connections(self.requests, frame_bytes_max=frame_bytes_max, under_way_max=under_way_max)
        self.connection: Connection = self.all.accept()
        self.transport = FakeTransport(host)
        self.connection.connection_made(cast(Any, self.transport))

    def send(self, *contents: bytes) -> None:
        """All of them in one go."""
        self.send_raw(b"".join(struct.pack(">i", len(content)) + content for content in contents))

    def send_raw(self, stream: bytes) -> None:
        view = memoryview(stream)
        while view:
            space = self.connection.get_buffer(-1)
            count = min(len(space), len(view))
            space[:count] = view[:count]
            self.connection.buffer_updated(count)
            view = view[count:]

    async def received(self) -> bytes:
        await asyncio.sleep(0)  # the answers of one turn leave together at its end
        return bytes(self.transport.written)


def with_client(**options: Any) -> Callable[[Callable[[Client], Any]], Callable[[], None]]:
    """Run a test in a loop of its own, with a connected client."""

    def decorate(test: Callable[[Client], Any]) -> Callable[[], None]:
        async def run() -> None:
            await test(Client(**options))

        def wrapped() -> None:
            asyncio.run(run())

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate
