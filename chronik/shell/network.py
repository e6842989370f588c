"""The Network door: TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

BACKLOG = 1024


class RealListener:
    """A TCP port that is listened on."""

    def __init__(self, server: asyncio.AbstractServer, address: tuple[str, int]) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()


class RealNetwork:
    """TCP connections in and out."""

    async def listen(self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]) -> RealListener:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(accept, host, port, backlog=BACKLOG)
        bound = server.sockets[0].getsockname()
        return RealListener(server, (bound[0], bound[1]))

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport
