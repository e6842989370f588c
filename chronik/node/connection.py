"""One client's connection: requests in, answers out in the order of the requests.

Several requests may be under way: each has a slot in a line, and an answer leaves when all before it have left. A
client that sends faster than it reads is read no further until it has caught up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, cast

from chronik.api.desk import Caller
from chronik.core.ports import FileSlice, Outgoing
from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.framing import Inbox

log = logging.getLogger(__name__)

UNLIMITED = 2**31 - 1
FLUSH_BYTES = 128 * 1024  # answers of more than this are not worth holding back for company


class Slot:
    """An answer's place in the line. Called with the answer: buffers, `()` for none, or None to hang up."""

    __slots__ = ("_connection", "buffers", "is_filled", "on_abandoned")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.buffers: Sequence[Outgoing] | None = None
        self.is_filled = False
        self.on_abandoned: Callable[[], None] | None = None  # nobody waits for the answer any more

    def __call__(self, buffers: Sequence[Outgoing] | None) -> None:
        if self.is_filled:  # a fault was answered already
            return
        self.buffers = buffers
        self.is_filled = True
        self._connection.slot_filled(self)


class Peer:
    """Who is at the other end."""

    __slots__ = ("caller", "connection_id", "host", "is_node")

    def __init__(self, connection_id: int, host: str) -> None:
        self.connection_id = connection_id
        self.host = host
        self.is_node = False  # another node of this cluster has said that it is one
        self.caller: Caller | None = None  # as who it asked last; None again when anything of the above changes


class Starter(Protocol):
    """What a connection needs of dispatch."""

    def start(self, frame: memoryview, peer: Peer, answer: Slot) -> bool:
        """Begin with a request; True when the next one may begin before this one is answered. Raises Malformed."""


# Sends what a connection takes at once and returns the rest (the Network door's).
SendNow: TypeAlias = Callable[[asyncio.Transport, list[Outgoing]], list[Outgoing]]


class Connections:
    """All connections of a node."""

    def __init__(
        self,
        starter: Starter,
        *,
        frame_bytes_max: int,
        under_way_max: int,
        send_now: SendNow = lambda _, pieces: pieces,
        open_max: Callable[[], int] = lambda: UNLIMITED,
        on_closed: Callable[[int], None] = lambda connection_id: None,
    ) -> None:
        self.starter = starter
        self.on_closed = on_closed  # told of each connection that has ended
        self.send_now = send_now
        self.open_max = open_max
        self.frame_bytes_max = frame_bytes_max
        self.under_way_max = under_way_max
        self.open: dict[int, Connection] = {}
        self.accepted_total = 0
        self.malformed_total = 0

    def accept(self) -> Connection:
        self.accepted_total += 1
        return Connection(self, self.accepted_total)

    def close_idle(self, idle_s: float) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.open.values()):
            if now - connection.used_at > idle_s and not connection.is_busy:
                connection.close()

    async def close_all(self) -> None:
        for connection in list(self.open.values()):
            connection.close()
        await asyncio.sleep(0)


class Connection(asyncio.BufferedProtocol):
    """A client's TCP connection."""

    __slots__ = (
        "_all",
        "_backlog",
        "_blocked_by",
        "_inbox",
        "_is_flush_due",
        "_is_paused",
        "_line",
        "_loop",
        "_outbox",
        "_outbox_bytes",
        "_peer",
        "_transport",
        "used_at",
    )

    def __init__(self, everyone: Connections, connection_id: int) -> None:
        self._all = everyone
        self._peer = Peer(connection_id, "")
        self._inbox = Inbox(everyone.frame_bytes_max)
        self._line: deque[Slot] = deque()
        self._backlog: deque[memoryview] = deque()  # requests that were read and may not begin yet
        self._blocked_by: Slot | None = None  # until it is answered no further request begins
        self._is_paused = False  # the client does not read its answers
        self._outbox: list[Outgoing] = []  # answers of this turn of the loop: they leave together
        self._outbox_bytes = 0
        self._is_flush_due = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.used_at = self._loop.time()

    @property
    def is_busy(self) -> bool:
        return bool(self._line)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # TCP's transport is two-way; uvloop's does not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self._peer.host = str(address[0]) if address else ""
        if len(self._all.open) >= self._all.open_max():
            log.warning(
                "turning %s away: there are %d connections (max.connections)", self._peer.host, len(self._all.open)
            )
            self.close()
            return
        self._all.open[self._peer.connection_id] = self

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._abandon()
        self._outbox.clear()
        self._all.open.pop(self._peer.connection_id, None)
        self._all.on_closed(self._peer.connection_id)

    # --- requests

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.used_at = self._loop.time()
        try:
            self._backlog.extend(self._inbox.filled(nbytes))
        except Malformed as problem:
            self._hang_up(problem)
            return
        self._work_off_backlog()

    def _work_off_backlog(self) -> None:
        """Begin what may begin: not behind a request to be answered first, nor for a client that reads nothing."""
        backlog = self._backlog
        try:
            while backlog and self._blocked_by is None and not self._is_paused:
                slot = Slot(self)
                self._line.append(slot)
                may_overlap = self._all.starter.start(backlog.popleft(), self._peer, slot)
                if not may_overlap and not slot.is_filled:
                    self._blocked_by = slot
        except Malformed as problem:
            self._hang_up(problem)
        self._adjust_reading()

    def _hang_up(self, problem: Malformed) -> None:
        """Where the next request begins is not known any more, so the connection ends."""
        self._all.malformed_total += 1
        log.warning("closing the connection of %s: %s", self._peer.host, problem)
        self.close()

    # --- answers

    def slot_filled(self, slot: Slot) -> None:
        """An answer is there: it and those behind it that only waited for it may leave."""
        line = self._line
        while line and line[0].is_filled:
            first = line.popleft()
            buffers, first.buffers = first.buffers, None
            first.on_abandoned = None  # what it belongs to refers to this slot: without it, nothing is left to collect
            if buffers is None:
                self.close()
                return
            for buffer in buffers:
                self._outbox.append(buffer)
                self._outbox_bytes += len(buffer)
        if self._outbox_bytes >= FLUSH_BYTES:
            self._flush()
        elif self._outbox and not self._is_flush_due:
            # One write for all answers of this turn: a sync lets many go at once, and a write costs more than the rest.
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        if slot is self._blocked_by:
            self._blocked_by = None
            self._work_off_backlog()

    def _flush(self) -> None:
        self._is_flush_due = False
        outbox, size = self._outbox, self._outbox_bytes
        # Of a client that does not read, files stay unread as well: they are not to pile up in memory.
        if not outbox or (self._is_paused and size >= FLUSH_BYTES):
            return
        self._outbox, self._outbox_bytes = [], 0
        if self._transport is None:
            return
        try:
            if size < FLUSH_BYTES:
                self._transport.write(b"".join(map(_read, outbox)))
            else:
                self._send(self._transport, outbox)
        except OSError as problem:  # records that were promised can no longer be read: nothing sensible can follow
            log.error("closing the connection of %s: %s", self._peer.host, problem)
            self._transport.abort()
        self._adjust_reading()

    def _send(self, transport: asyncio.Transport, pieces: list[Outgoing]) -> None:
        """Straight to the socket what it takes at once, files without reading them; then a part at a time through the
        transport, until that has enough: what a slow client has not taken yet is not to pile up in memory."""
        if transport.get_write_buffer_size() == 0 and any(isinstance(piece, FileSlice) for piece in pieces):
            pieces = self._all.send_now(transport, pieces)
        while pieces and not self._is_paused:
            part, pieces = _split(pieces, FLUSH_BYTES)
            transport.writelines([_read(piece) for piece in part])
        self._outbox, self._outbox_bytes = pieces, sum(map(len, pieces))

    def pause_writing(self) -> None:
        self._is_paused = True
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()
        self._work_off_backlog()

    def _adjust_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        must_wait = self._is_paused or bool(self._backlog) or len(self._line) >= self._all.under_way_max
        if must_wait == transport.is_reading():
            if must_wait:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def close(self) -> None:
        """Send the answers that are due; what is under way is not answered any more, what was not begun never is."""
        self._abandon()
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _abandon(self) -> None:
        """A client may say that it waits for weeks, and then go: what waits for it here goes as well."""
        line, self._line = self._line, deque()
        self._backlog.clear()
        for slot in line:
            if slot.on_abandoned is not None:
                slot.on_abandoned()


def _read(piece: Outgoing) -> Buffer:
    return bytes(piece) if isinstance(piece, FileSlice) else piece


def _split(pieces: list[Outgoing], size: int) -> tuple[list[Outgoing], list[Outgoing]]:
    """The first `size` bytes, and the rest."""
    for index, piece in enumerate(pieces):
        if len(piece) > size:
            return [*pieces[:index], _cut(piece, 0, size)], [_cut(piece, size, len(piece)), *pieces[index + 1 :]]
        size -= len(piece)
    return pieces, []


def _cut(piece: Outgoing, start: int, end: int) -> Outgoing:
    if isinstance(piece, FileSlice):
        return FileSlice(piece.file, piece.position + start, end - start)
    return memoryview(piece)[start:end]
