"""The Network door: TCP, and TLS over it on the listeners that speak it, and between nodes where theirs does."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence

from chronik.core.ports import FileSlice, Outgoing
from chronik.shell.tls import TlsContexts

log = logging.getLogger(__name__)

BACKLOG = 1024
HANDSHAKE_S = 10.0  # what has not shaken hands by then is closed


class RealListener:
    """A TCP port that is listened on."""

    def __init__(self, server: asyncio.Server, accept: Callable[[], asyncio.BaseProtocol], protocol: str) -> None:
        self._server = server
        self._others: Sequence[asyncio.Server] = ()  # where a name stands for several addresses: those behind the first
        self._accept = accept
        self.protocol = protocol
        bound = server.sockets[0].getsockname()
        self.address = (bound[0], bound[1])

    async def go_on_with(self, tls: ssl.SSLContext) -> None:
        """The same port, and whatever waits there, with another context for connections from now on. Raises OSError."""
        servers = (self._server, *self._others)
        heard = [socket.socket(fileno=os.dup(each.fileno())) for server in servers for each in server.sockets]
        loop = asyncio.get_running_loop()
        for each in heard:
            each.setblocking(False)
        made = [
            await loop.create_server(
                self._accept, sock=each, backlog=BACKLOG, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S
            )
            for each in heard
        ]
        for server in servers:
            server.close()
        self._server, self._others = made[0], made[1:]

    async def close(self) -> None:
        for other in self._others:
            other.close()
        self._server.close()
        await self._server.wait_closed()


class RealNetwork:
    """Connections in, by listener over TLS or not, and out to other nodes: all of those over TLS, or none."""

    def __init__(self, tls: TlsContexts | None = None, *, connects_encrypted: bool = True) -> None:
        self._tls = tls
        self._connects_encrypted = connects_encrypted
        self._listeners: list[RealListener] = []

    async def use_new_certificates(self) -> None:
        """What `TlsContexts` has by now is for all connections that are made from now on."""
        assert self._tls is not None
        for listener in self._listeners:
            try:
                await listener.go_on_with(self._tls.server_for(listener.protocol))
            except OSError as problem:  # out of descriptors, for instance
                log.error("a listener goes on with its old certificate: %s", problem)

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
        listener = RealListener(server, accept, protocol)
        if protocol.endswith("SSL"):
            self._listeners.append(listener)
        return listener

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport:
        tls = self._tls.client if self._tls is not None and self._connects_encrypted else None
        transport = await _first_that_connects(host, port, protocol, tls)
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
