"""The Network door: TCP."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from chronik.core.ports import FileSlice, Outgoing

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
        transport = await _first_that_connects(host, port, protocol)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport

    def send_now(self, transport: asyncio.Transport, pieces: list[Outgoing]) -> list[Outgoing]:
        descriptor = transport.get_extra_info("socket").fileno()
        for index, piece in enumerate(pieces):
            sent = 0
            while sent < len(piece):
                try:
                    if isinstance(piece, FileSlice):
                        sent += piece.file.send(descriptor, piece.position + sent, piece.length - sent)
                    else:
                        sent += os.write(descriptor, memoryview(piece)[sent:])
                except OSError:  # full, or broken: then the transport will notice
                    return [_without(piece, sent), *pieces[index + 1 :]]
        return []


async def _first_that_connects(host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport:
    """A name may stand for several addresses ('localhost' for two). When none of them connects, the last one's problem
    is raised as it is: asyncio's own sum of them no longer says that the connection was refused."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for index, (family, *_, address) in enumerate(found):
        try:
            transport, _ = await loop.create_connection(lambda: protocol, str(address[0]), port, family=family)
            return transport
        except OSError:
            if index == len(found) - 1:
                raise
    raise OSError(f"{host} has no address")


def _without(piece: Outgoing, sent: int) -> Outgoing:
    if isinstance(piece, FileSlice):
        return FileSlice(piece.file, piece.position + sent, piece.length - sent)
    return memoryview(piece)[sent:]
