"""Memory of clients' requests under way, bounded by `queued.max.request.bytes` for the whole node.

What counts is what was read and not answered yet, and what was taken for requests that are not whole yet. When that is
too much, a client's connection that is in the middle of a request is read no further, and one between two requests only
while others' whole requests are that much. Such connections wait in a line, and are read again in its order.

Requests that are half read could fill it all, and then none would ever become whole. So the first in line has the
*turn*: it is read to the end of its request, over the budget, which may be exceeded by this one request. And while
others wait, a client that is free to go on with its request and does not is given up.

Other nodes' requests are neither counted nor held up: what a follower or the quorum needs does not wait for clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from chronik.wire.framing import SHARED_BYTES

log = logging.getLogger(__name__)

REQUEST_OVERHEAD_BYTES = 1024  # of what is kept for a request beside its bytes, about
DEFAULT_BYTES = 256 * 1024 * 1024
STALLED_BYTES = 16 * 1024
UNFINISHED_BYTES = 1024  # a request that brings less than this in its time does not go on


class Pace(NamedTuple):
    """How patient it is while connections wait."""

    look_s: float = 0.25
    stalled_s: float = 1.0  # in this time a request that is not whole has to bring STALLED_BYTES
    stuck_s: float = 30.0  # if nothing was answered for so long, the client that has most under way has to go


PATIENT = Pace()


class ReadProgress:
    """How far a connection was read."""

    __slots__ = ("_stalled_since", "read_on_at", "received_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.read_on_at = 0.0  # when its turn in the line for memory last came
        self._stalled_since: tuple[float, int] | None = None  # a time, and what had been received by then

    def has_stalled(self, now: float, stalled_s: float, *, is_expected: bool) -> bool:
        """Whether for so long hardly anything came, though more was expected."""
        if not is_expected:
            self._stalled_since = None
            return False
        since = self._stalled_since
        if since is None or self.received_bytes - since[1] >= UNFINISHED_BYTES:
            self._stalled_since = (now, self.received_bytes)
            return False
        return now - since[0] >= stalled_s


class PausableReader(Protocol):
    """A client's connection, as far as it is read."""

    progress: ReadProgress
    under_way_bytes: int

    @property
    def host(self) -> str: ...

    @property
    def is_unfinished(self) -> bool:
        """Whether a request has begun to come in and is not whole."""

    def read_on(self) -> None: ...

    def abort(self) -> None: ...


class RequestMemory:
    """What is taken, and the line of connections that wait for room."""

    __slots__ = (
        "_excess_bytes",
        "_given_at",
        "_pace",
        "_readers",
        "_seen",
        "_seen_at",
        "_timer",
        "_turn",
        "given_up_total",
        "limit_bytes",
        "line",
        "unfinished_bytes",
        "used_bytes",
    )

    def __init__(
        self,
        limit_bytes: int = DEFAULT_BYTES,
        excess_bytes: int = 0,
        readers: Callable[[], Iterable[PausableReader]] = tuple,
        pace: Pace = PATIENT,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._excess_bytes = excess_bytes  # of the request in turn, which may be of any size that is allowed
        self._pace = pace
        self._readers = readers  # all of them
        self.used_bytes = 0
        self.unfinished_bytes = 0  # of these, those of requests that are not whole
        self.given_up_total = 0
        self.line: dict[PausableReader, None] = {}  # connections that wait, the first to wait in front
        self._turn: PausableReader | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._given_at = 0.0  # when something was last given back while others waited
        self._seen: dict[PausableReader, int] = {}  # bytes received at the last look
        self._seen_at = 0.0

    @property
    def waiting(self) -> int:
        return len(self.line)

    def has_to_wait(self, reader: PausableReader) -> bool:
        """Called when too much is taken: whether this connection is to be read no further for now."""
        if reader is self._turn:
            if reader.is_unfinished:
                return False
            self._turn = None
        if not reader.is_unfinished and self.used_bytes - self.unfinished_bytes < self.limit_bytes:
            return False  # what takes it all is halves of others; small requests go on meanwhile
        if reader not in self.line:
            self.line[reader] = None
        while self.used_bytes > self.limit_bytes + self._excess_bytes and self.line:
            self._give_up([next(reversed(self.line))], "it came last")
        self._pass_on()
        self._watch()
        return reader in self.line

    def given_back(self) -> None:
        """A request was answered, and what it held was taken off `used_bytes`. Called only while others wait."""
        self._given_at = asyncio.get_running_loop().time()
        self._pass_on()

    def left(self, reader: PausableReader) -> None:
        """The connection has ended, and what it held was given back."""
        self.line.pop(reader, None)
        self._seen.pop(reader, None)
        if reader is self._turn:
            self._turn = None
        if self.line:
            self._pass_on()

    def _pass_on(self) -> None:
        """Let as many be read as there is room for what one of them brings at a time; at least the one in turn."""
        room_bytes = self.limit_bytes - self.used_bytes
        if self._turn is not None and not self._turn.is_unfinished:
            self._turn = None
        while self.line and room_bytes > 0:
            room_bytes -= SHARED_BYTES
            self._first().read_on()
        if self.line and self._turn is None and self.used_bytes - self.unfinished_bytes < self.limit_bytes:
            self._turn = self._first()
            self._turn.read_on()

    def _first(self) -> PausableReader:
        reader = next(iter(self.line))
        del self.line[reader]
        return reader

    # --- while a request waits

    def _watch(self) -> None:
        if self._timer is None and self.line:
            loop = asyncio.get_running_loop()
            self._given_at = self._seen_at = loop.time()
            self._seen.clear()
            self._timer = loop.call_later(self._pace.look_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self.line:
            self._seen.clear()
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._seen_at >= self._pace.stalled_s:
            self._give_up_stalled(now)
            self._seen_at = now
        if now - self._given_at >= self._pace.stuck_s:
            self._give_up_largest()
            self._given_at = now
        self._pass_on()  # those that were let on may have had nothing to send
        self._timer = loop.call_later(self._pace.look_s, self._tick)

    def _give_up_stalled(self, now: float) -> None:
        """Of those that could have sent on all the while. One that was in line may still be on its way."""
        seen, self._seen = self._seen, {}
        stalled: list[PausableReader] = []
        for reader in self._readers():
            if (
                not reader.is_unfinished
                or reader in self.line
                or now - reader.progress.read_on_at < self._pace.stalled_s
            ):
                continue
            if reader in seen and reader.progress.received_bytes - seen[reader] < STALLED_BYTES:
                stalled.append(reader)
            else:
                self._seen[reader] = reader.progress.received_bytes
        self._give_up(stalled, f"a request that is not whole has not gone on for {self._pace.stalled_s:g} s")

    def _give_up_largest(self) -> None:
        largest = max(self._readers(), key=lambda reader: reader.under_way_bytes, default=None)
        if largest is not None and largest.under_way_bytes:
            self._give_up([largest], f"nothing was answered for {self._pace.stuck_s:g} s, and it has most under way")

    def _give_up(self, readers: list[PausableReader], reason: str) -> None:
        if not readers:
            return
        self.given_up_total += len(readers)
        log.warning(
            "closing %d connections, one of them of %s: %s, and others wait for memory (queued.max.request.bytes)",
            len(readers),
            readers[0].host,
            reason,
        )
        for reader in readers:
            reader.abort()
