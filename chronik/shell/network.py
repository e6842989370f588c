"""The Network door: TCP, and TLS over it on the listeners that speak it, and between nodes where theirs does."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

from chronik.core.ports import FileSlice, Outgoing
from chronik.shell.tls import TlsContexts

BACKLOG = 1024
HANDSHAKE_S = 10.0  # what has not shaken hands by then is closed


class RealListener:
    """A TCP port that is listened on."""

    def __init__(self, server: asyncio.AbstractServer, address: tuple[str, int]) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()


class RealNetwork:
    """Connections in, by listener over TLS or not, and out to other nodes: all of those over TLS, or none."""

    def __init__(self, tls: TlsContexts | None = None, *, connects_encrypted: bool = True) -> None:
        self._tls = tls
        self._client_tls = tls.client if tls is not None and connects_encrypted else None

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol], *, protocol: str = "PLAINTEXT"
    ) -> RealListener:
        loop = asyncio.get_running_loop()
        if not protocol.endswith("SSL"):
            server = await loop.create_server(accept, host, port, backlog=BACKLOG)
        else:
            assert self._tls is not None  # or the config would not have been taken
            server = await loop.create_server(
                accept,
                host,
                port,
                backlog=BACKLOG,
                ssl=self._tls.server_for(protocol),
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        bound = server.sockets[0].getsockname()
        return RealListener(server, (bound[0], bound[1]))

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport:
        transport = await _first_that_connects(host, port, protocol, self._client_tls)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport

    def send_now(self, transport: asyncio.Transport, pieces: list[Outgoing]) -> list[Outgoing]:
        if transport.get_extra_info("sslcontext") is not None:
            return pieces  # the socket is below TLS: what is written to it goes out as it is
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


async def _first_that_connects(
    host: str, port: int, protocol: asyncio.BaseProtocol, tls: ssl.SSLContext | None
) -> asyncio.BaseTransport:
    """A name may stand for several addresses ('localhost' for two). When none of them connects, the last one's problem
    is raised as it is: asyncio's own sum of them no longer says that the connection was refused."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for index, (family, *_, address) in enumerate(found):
        try:
            # It is the name that the certificate must have, not the address it stands for.
            transport, _ = await loop.create_connection(
                lambda: protocol,
                str(address[0]),
                port,
                family=family,
                ssl=tls,
                server_hostname=None if tls is None else host,
            )
            return transport
        except OSError:
            if index == len(found) - 1:
                raise
    raise OSError(f"{host} has no address")


def _without(piece: Outgoing, sent: int) -> Outgoing:
    if isinstance(piece, FileSlice):
        return FileSlice(piece.file, piece.position + sent, piece.length - sent)
    return memoryview(piece)[sent:]
