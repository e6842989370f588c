"""One caller's connection to the HTTP port, with the bounds that uvicorn does not have.

So many at a time. A request has to be there, with all its headers, in a few seconds after the connection or the answer
before it; an answer may take longer. A caller that does not take its answer is not waited for.
"""

from __future__ import annotations

import asyncio
import logging

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from chronik.shell.http_server import HttpBounds

log = logging.getLogger(__name__)

HEADER_BYTES_MAX = 16 * 1024
LOGGED_AGAIN_S = 60.0


class HttpRefusals:
    """Says in the log that callers are turned away, once when it begins and once a minute while it goes on."""

    def __init__(self) -> None:
        self.total = 0
        self._logged_at = -LOGGED_AGAIN_S

    def tell(self, now: float, connections_max: int) -> None:
        self.total += 1
        if now - self._logged_at >= LOGGED_AGAIN_S:
            self._logged_at = now
            log.warning(
                "turning callers of the HTTP port away, %d so far: there are %d connections (http.max.connections)",
                self.total,
                connections_max,
            )


class BoundedHttp(H11Protocol):
    """uvicorn's protocol, with bounds."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        bounds: HttpBounds,
        refusals: HttpRefusals,
    ) -> None:
        super().__init__(config, state, {}, _loop=loop)
        self._bounds = bounds
        self._refusals = refusals
        self._timer: asyncio.TimerHandle | None = None
        self._is_answer_late = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        if len(self.connections) >= self._bounds.connections_max:
            self.transport = transport
            self._refusals.tell(self.loop.time(), self._bounds.connections_max)
            transport.abort()
            return
        super().connection_made(transport)
        self._wait(self._bounds.request_s)

    def on_response_complete(self) -> None:
        self._is_answer_late = False
        self._wait(self._bounds.request_s)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn has none at first, whatever its type says
        if cycle is None or cycle.response_complete or self._is_answer_late:
            self.transport.abort()
        else:
            self._is_answer_late = True
            self._wait(self._bounds.answer_s)
