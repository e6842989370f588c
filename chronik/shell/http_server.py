"""The HTTP port of a node: metrics and health.

The port is bound at once, so that a port in use is reported at the start; what serves it is loaded when the first
caller comes, on a thread. A node that nothing asks never pays for it, in memory or in the time to its first Kafka
request. uvicorn's HTTP protocol runs in the node's own event loop; its server, with its signal handlers and its tick
ten times a second, does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from chronik.shell.tls import PLAIN_HTTP, HttpTls

if TYPE_CHECKING:
    from uvicorn.server import ServerState

    from chronik.node.node import Node
    from chronik.shell.http_connection import BoundedHttp

log = logging.getLogger(__name__)

BACKLOG = 128
CLOSE_TIMEOUT_S = 1.0


class HttpBounds(NamedTuple):
    """What callers may take."""

    connections_max: int = 64
    request_s: float = 10.0  # until a request is there, with all its headers
    answer_s: float = 60.0  # and until it is answered


USUAL_BOUNDS = HttpBounds()


class _Loaded(NamedTuple):
    """What serves a connection, and the connections that are served."""

    accept: Callable[[], BoundedHttp]
    state: ServerState


class HttpServer:
    """Serves one node's state until it is closed. Nothing that goes wrong here reaches the node."""

    def __init__(self, node: Node, listening: socket.socket, bounds: HttpBounds, tls: HttpTls) -> None:
        self._node = node
        self._tls = tls
        self._bounds = bounds
        self._listening = listening
        self._loop = asyncio.get_running_loop()
        self._starting: asyncio.Task[None] | None = None
        self._loaded: _Loaded | None = None
        self._server: asyncio.AbstractServer | None = None
        bound = listening.getsockname()
        self.address: tuple[str, int] = (bound[0], bound[1])

    @classmethod
    async def open(
        cls, node: Node, host: str, port: int, bounds: HttpBounds = USUAL_BOUNDS, tls: HttpTls = PLAIN_HTTP
    ) -> HttpServer:
        """Listen on this address; port 0 takes a free one. Raises OSError."""
        server = cls(node, await _listen(host, port), bounds, tls)
        server._loop.add_reader(server._listening, server._first_caller)
        return server

    def _first_caller(self) -> None:
        self._loop.remove_reader(self._listening)
        self._starting = self._loop.create_task(self._start(), name="http-start")

    async def _start(self) -> None:
        try:
            self._loaded = await asyncio.to_thread(_load, self._node, self._loop, self._bounds)
            context = self._tls.context
            self._server = await self._loop.create_server(
                self._accepted,
                sock=self._listening,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self._bounds.request_s,
            )
        except Exception:
            log.exception("metrics and health are not served")
            self._listening.close()

    def _accepted(self) -> BoundedHttp:
        assert self._loaded is not None
        self._tls.reload_if_changed()
        return self._loaded.accept()

    async def close(self) -> None:
        """Stop listening, let answers that are under way finish, hang up."""
        if self._listening.fileno() < 0:  # closed already
            return
        if self._starting is None:
            self._loop.remove_reader(self._listening)
        else:
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._starting
        if self._server is not None:
            self._server.close()
        self._listening.close()
        if self._loaded is not None:
            await _hang_up(self._loaded.state)


async def _listen(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # 'localhost' may be both: the older family first, since that is where scripts look.
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    listening.setblocking(False)
    return listening


def _load(node: Node, loop: asyncio.AbstractEventLoop, bounds: HttpBounds) -> _Loaded:
    """Takes about a tenth of a second, nearly all of it imports."""
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from chronik.http.hosts import HostCheck, own_names
    from chronik.http.routes import build
    from chronik.shell.http_access import with_access
    from chronik.shell.http_connection import HEADER_BYTES_MAX, BoundedHttp, HttpRefusals

    app = HostCheck(with_access(build(node), node), own_names(node.config, socket.gethostname()))
    config = Config(
        app, http="h11", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, date_header=False, h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )  # fmt: skip
    config.load()
    state = ServerState()
    refusals = HttpRefusals()
    return _Loaded(lambda: BoundedHttp(config, state, loop, bounds, refusals), state)


async def _hang_up(state: ServerState) -> None:
    if state.tasks:
        await asyncio.wait(list(state.tasks), timeout=CLOSE_TIMEOUT_S)
    for task in list(state.tasks):
        task.cancel()
    for connection in list(state.connections):
        connection.shutdown()
