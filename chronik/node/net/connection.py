"""One client's connection: requests in, answers out in the order of the requests.

Several requests may be under way: each has a slot in a line, and an answer leaves when all before it have left. A
client that sends faster than it reads is read no further until it has caught up; nor is any client while requests have
taken more memory than they may (`request_memory`). How many connections there may be is up to `connection_quotas`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol, TypeAlias, cast

from chronik.api.call import Peer
from chronik.core.access.principal import ANONYMOUS
from chronik.core.access.ssl_principal import NoMatchingRule
from chronik.core.ports import FileSlice, Outgoing
from chronik.core.types import Buffer
from chronik.node.net.authentication import Authentication
from chronik.node.net.connection_quotas import ConnectionQuotas
from chronik.node.net.node_identity import may_identify, may_not_become_node
from chronik.node.net.request_memory import (
    DEFAULT_BYTES,
    PATIENT,
    REQUEST_OVERHEAD_BYTES,
    Pace,
    ReadProgress,
    RequestMemory,
)
from chronik.wire.errors import Malformed
from chronik.wire.framing import SHARED_BYTES, Inbox

log = logging.getLogger(__name__)

FLUSH_BYTES = 128 * 1024  # answers of more than this are not worth holding back for company
# Bytes of answers in memory that a client does not take, or that wait for an answer before them: with more than this no
# further request of its is begun, and what is read from files for it is let go and read again when it leaves.
HELD_BYTES = 1024 * 1024
HELD_ALL_BYTES = 64 * 1024 * 1024  # the same for all clients together; from then on they get smaller pieces
SMALL_PIECE_BYTES = 16 * 1024
PLAINTEXT = "PLAINTEXT"  # the name of the one listener there is


class Slot:
    """An answer's place in the line. Called with the answer: buffers, `()` for none, or None to hang up."""

    __slots__ = ("_connection", "buffers", "held_bytes", "is_filled", "on_abandoned", "request_bytes")

    def __init__(self, connection: Connection, request_bytes: int = 0) -> None:
        self._connection = connection
        self.request_bytes = request_bytes  # what its request has taken of the memory for requests
        self.buffers: Sequence[Outgoing] | None = None
        self.held_bytes = 0  # of its answer in memory, while it cannot leave
        self.is_filled = False
        self.on_abandoned: Callable[[], None] | None = None  # nothing waits for the answer any more

    def __call__(self, buffers: Sequence[Outgoing] | None) -> None:
        if self.is_filled:  # a fault was answered already
            return
        self.buffers = buffers
        self.is_filled = True
        self._connection.slot_filled(self)


class Outbox:
    """Answers of this turn of the loop: they leave together."""

    __slots__ = ("is_flush_due", "pieces", "size_bytes")

    def __init__(self) -> None:
        self.pieces: list[Outgoing] = []
        self.size_bytes = 0
        self.is_flush_due = False

    def clear(self) -> None:
        self.pieces, self.size_bytes = [], 0

    def put_back(self, pieces: list[Outgoing]) -> None:
        """What the client does not take yet."""
        self.pieces, self.size_bytes = pieces, sum(map(len, pieces))


class HeldAnswers:
    """Bytes of one client's answers in memory that cannot leave; those of all clients together are counted too."""

    __slots__ = ("_everyone", "buffered_bytes", "leaving_bytes", "waiting_bytes")

    def __init__(self, everyone: Connections) -> None:
        self._everyone = everyone
        self.waiting_bytes = 0  # in the line or the outbox
        self.leaving_bytes = 0  # of these, what is in the outbox
        self.buffered_bytes = 0  # what the transport has, while the client does not read

    def hold(self, slot: Slot) -> None:
        """An answer that cannot leave yet: what it keeps in memory counts."""
        slot.held_bytes = sum(len(piece) for piece in slot.buffers or () if not isinstance(piece, FileSlice))
        self.waiting_bytes += slot.held_bytes
        self._everyone.held_bytes += slot.held_bytes

    def flushed(self) -> None:
        """What was in the outbox has left."""
        self.waiting_bytes -= self.leaving_bytes
        self._everyone.held_bytes -= self.leaving_bytes
        self.leaving_bytes = 0

    def buffer(self, count: int) -> None:
        """The transport has so much that the client does not take; 0 when it takes it again."""
        self._everyone.held_bytes += count - self.buffered_bytes
        self.buffered_bytes = count

    def drop(self) -> None:
        """The client is gone."""
        self._everyone.held_bytes -= self.waiting_bytes + self.buffered_bytes
        self.waiting_bytes = self.leaving_bytes = self.buffered_bytes = 0


class QuotaStanding(Enum):
    """What a connection is to the quotas."""

    PROBATION = auto()  # over a limit: only another node may stay
    CLIENT = auto()
    NODE = auto()


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
        quotas: ConnectionQuotas | None = None,
        request_bytes_max: int = DEFAULT_BYTES,
        pace: Pace = PATIENT,
        on_closed: Callable[[int], None] = lambda connection_id: None,
        on_login: Callable[[Peer, str | None], None] = lambda peer, problem: None,
        authentication: Authentication | None = None,
        frame_bytes_max_before_login: int = 524_288,
        login_s: float = 10.0,
    ) -> None:
        self.frame_bytes_max_before_login = frame_bytes_max_before_login
        self._login_s = login_s  # how long a connection may take to log in
        self.starter = starter
        self.on_closed = on_closed  # called with each connection that has ended
        self.send_now = send_now
        self.on_login = on_login  # called when a certificate has said what a client is, or why it is none
        self.authentication = authentication
        self.quotas = quotas or ConnectionQuotas()
        self.memory = RequestMemory(request_bytes_max, frame_bytes_max, lambda: list(self.open.values()), pace)
        self.scratch = bytearray(SHARED_BYTES)  # what all connections read into
        self.frame_bytes_max = frame_bytes_max
        self.under_way_max = under_way_max
        self.open: dict[int, Connection] = {}
        self.accepted_total = 0
        self.malformed_total = 0
        self.held_bytes = 0  # of answers that clients do not take
        self.idle_total = 0  # closed because nothing came or went
        self.unfinished_total = 0  # closed because a request did not become whole

    def accept(self, listener: str = PLAINTEXT) -> Connection:
        self.accepted_total += 1
        return Connection(self, self.accepted_total, listener)

    def is_slow(self, connection_id: int) -> bool:
        """Whether an answer to this connection will not leave soon, so that it should not be held in memory."""
        connection = self.open.get(connection_id)
        return self.held_bytes >= HELD_ALL_BYTES or (connection is not None and connection.is_slow)

    def close_idle(self, idle_s: float, unfinished_s: float) -> None:
        """End what nothing came from or went to for `idle_s` (never, if that is negative), whatever it waits for, as
        Kafka does; and what has not gone on with a request for `unfinished_s`."""
        now = asyncio.get_running_loop().time()
        unfinished: list[Connection] = []
        for connection in list(self.open.values()):
            if connection.is_overdue(now, self._login_s):
                log.warning(
                    "closing the connection of %s: it has not logged in within %g s", connection.host, self._login_s
                )
                connection.abort()
            elif 0 <= idle_s < now - connection.used_at:
                self.idle_total += 1
                connection.end()
            elif connection.is_given_up(now, unfinished_s):
                unfinished.append(connection)
        if unfinished:
            self.unfinished_total += len(unfinished)
            log.warning(
                "closing %d connections, one of them of %s: a request has not become whole, nor gone on for %g s"
                " (chronik.unfinished.request.timeout.ms)",
                len(unfinished),
                unfinished[0].host,
                unfinished_s,
            )
            for connection in unfinished:
                connection.abort()

    def end_where(self, is_over: Callable[[Peer], bool], reason: str) -> None:
        """Close at once what may not go on."""
        for connection in list(self.open.values()):
            if connection.ends_if(is_over):
                log.warning("closing the connection of %s: %s", connection.host, reason)

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
        "_held",
        "_inbox",
        "_is_paused",
        "_line",
        "_loop",
        "_made_at",
        "_outbox",
        "_peer",
        "_standing",
        "_transport",
        "_unfinished_bytes",
        "_unmuting",
        "_waits_for_memory",
        "host",
        "progress",
        "under_way_bytes",
        "used_at",
    )

    def __init__(self, everyone: Connections, connection_id: int, listener: str) -> None:
        self._all = everyone
        self._peer = Peer(connection_id, "", listener)
        self.host = ""  # its own address: that of its peer may become that of a client for which a node asks
        self._inbox = Inbox(everyone.frame_bytes_max, scratch=everyone.scratch)
        self._line: deque[Slot] = deque()
        self._backlog: deque[memoryview] = deque()  # requests that were read and may not begin yet
        self._blocked_by: Slot | None = None  # until it is answered no further request begins
        self._is_paused = False  # the client does not read its answers
        # While it is set the client is over a quota, and muted: nothing more of it is begun until it has waited.
        self._unmuting: asyncio.TimerHandle | None = None
        self._outbox = Outbox()
        self._held = HeldAnswers(everyone)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._made_at = self._loop.time()
        self._standing = QuotaStanding.CLIENT
        self._waits_for_memory = False
        self._unfinished_bytes = 0  # what of the memory for requests it has for one that is not whole
        self.under_way_bytes = 0  # what it has for requests that are not answered
        self.progress = ReadProgress()
        self.used_at = self._loop.time()  # when something last came from the client, or it took something

    @property
    def listener(self) -> str:
        return self._peer.listener

    @property
    def is_slow(self) -> bool:
        return self._is_paused or self._held.waiting_bytes >= HELD_BYTES

    @property
    def is_unfinished(self) -> bool:
        return self._inbox.unfinished_bytes > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # TCP's transport is two-way; uvloop's does not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.host = self._peer.host = str(address[0]) if address else ""
        self._all.open[self._peer.connection_id] = self
        if not self._all.quotas.takes(self):
            self._standing = QuotaStanding.PROBATION
        else:
            self._peer.throttle_ms = self._all.quotas.wait_ms(self)
            if self._peer.throttle_ms:
                self._mute()
        if self._all.authentication is not None:
            try:
                self._all.authentication.authenticate(self._peer, transport, self._logged_in)
            except NoMatchingRule as problem:
                log.warning("closing the connection of %s: %s", self._peer.host, problem)
                self._all.on_login(self._peer, str(problem))
                self.abort()
            else:
                if self._peer.principal is not ANONYMOUS:
                    self._all.on_login(self._peer, None)

        if self._peer.login is not None:
            self._inbox.limit(self._all.frame_bytes_max_before_login, "sasl.server.max.receive.size")

    def _logged_in(self) -> None:
        self._inbox.limit(self._all.frame_bytes_max, "socket.request.max.bytes")

    def ends_if(self, is_over: Callable[[Peer], bool]) -> bool:
        """Whether it was over, and so is closed."""
        is_it = is_over(self._peer)
        if is_it:
            self.abort()
        return is_it

    def is_overdue(self, now: float, login_s: float) -> bool:
        """Whether it should have logged in by now."""
        login = self._peer.login
        return login is not None and login.principal is None and now - self._made_at > login_s

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._unmuting is not None:
            self._unmuting.cancel()
            self._unmuting = None
        self._abandon()
        self._outbox.clear()
        self._held.drop()
        self._all.open.pop(self._peer.connection_id, None)
        self._all.quotas.left(self)
        self._all.on_closed(self._peer.connection_id)

    # --- requests

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.used_at = self._loop.time()
        self.progress.received_bytes += nbytes
        try:
            frames = self._inbox.filled(nbytes)
        except Malformed as problem:
            self._hang_up(problem)
            return
        self._backlog.extend(frames)
        if self._standing is QuotaStanding.PROBATION and not self._may_prove_itself():
            return
        peer, memory = self._peer, self._all.memory
        is_node = peer.is_node
        if not is_node:
            self._take_memory(frames, memory)
        self._work_off_backlog()
        if peer.is_node and self._standing is not QuotaStanding.NODE:
            self._standing = QuotaStanding.NODE
            self._all.quotas.is_node(self)
        elif self._standing is QuotaStanding.PROBATION and frames and may_not_become_node(peer, frames):
            self._all.quotas.refuse(self)
        elif not is_node and memory.used_bytes >= memory.limit_bytes:
            self._waits_for_memory = memory.has_to_wait(self)
            self._adjust_reading()

    def _may_prove_itself(self) -> bool:
        """On probation nothing but the one request is begun with which a node says that it is one."""
        backlog = self._backlog
        if self._transport is None or self._transport.is_closing():
            return False
        if not may_identify(backlog):
            self._all.quotas.refuse(self)
            return False
        return True

    def _take_memory(self, frames: list[memoryview], memory: RequestMemory) -> None:
        if frames:
            taken = sum(map(len, frames)) + REQUEST_OVERHEAD_BYTES * len(frames)
            self.under_way_bytes += taken
            memory.used_bytes += taken
        more = self._inbox.unfinished_bytes - self._unfinished_bytes
        if more:
            self._unfinished_bytes += more
            memory.unfinished_bytes += more
            memory.used_bytes += more

    def read_on(self) -> None:
        """There is memory for requests again, or it is this one's turn."""
        self._waits_for_memory = False
        self.progress.read_on_at = self._loop.time()
        self._adjust_reading()

    def is_given_up(self, now: float, unfinished_s: float) -> bool:
        """Whether a request has begun and not gone on for so long, though this connection was read."""
        transport = self._transport
        is_read = transport is not None and transport.is_reading()
        return self.progress.has_stalled(now, unfinished_s, is_expected=is_read and self.is_unfinished)

    def _work_off_backlog(self) -> None:
        """Begin what may begin: not behind a request to be answered first, nor for a client that reads nothing."""
        backlog, line, held, start = self._backlog, self._line, self._held, self._all.starter.start
        try:
            # As `is_slow`, without a call for each request.
            while (
                backlog
                and self._blocked_by is None
                and not self._is_paused
                and self._unmuting is None
                and held.waiting_bytes < HELD_BYTES
            ):
                frame = backlog.popleft()
                slot = Slot(self, len(frame) + REQUEST_OVERHEAD_BYTES)
                line.append(slot)
                may_overlap = start(frame, self._peer, slot)
                if not may_overlap and not slot.is_filled:
                    self._blocked_by = slot
                del frame  # or its memory would not be free for the next one
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
        taken = self.under_way_bytes
        if taken:
            memory, given = self._all.memory, slot.request_bytes
            if given > taken:
                given = taken  # not more than was taken: from when it says that it is a node, nothing is
            self.under_way_bytes = taken - given
            memory.used_bytes -= given
            if memory.line:
                memory.given_back()
        line, outbox = self._line, self._outbox
        if line and (self._is_paused or line[0] is not slot):
            self._held.hold(slot)
        while line and line[0].is_filled:
            first = line.popleft()
            buffers, first.buffers = first.buffers, None
            self._held.leaving_bytes += first.held_bytes
            first.on_abandoned = None  # what it belongs to refers to this slot: without it, nothing is left to collect
            if buffers is None:
                self.close()
                return
            for buffer in buffers:
                outbox.pieces.append(buffer)
                outbox.size_bytes += len(buffer)
        if outbox.size_bytes >= FLUSH_BYTES:
            self._flush()
        elif outbox.pieces and not outbox.is_flush_due:
            # One write for all answers of this turn: a sync lets many go at once, and a write costs more than the rest.
            outbox.is_flush_due = True
            self._loop.call_soon(self._flush)
        if self._peer.is_refused:
            self.close()
            return
        if self._peer.throttle_ms:
            self._mute()
        if slot is self._blocked_by:
            self._blocked_by = None
            self._work_off_backlog()

    def _mute(self) -> None:
        """Its answer has left, and says for how long (KIP-219)."""
        throttle_ms, self._peer.throttle_ms = self._peer.throttle_ms, 0
        until = self._loop.time() + throttle_ms / 1000
        if self._unmuting is not None:
            if self._unmuting.when() >= until:
                return
            self._unmuting.cancel()
        self._unmuting = self._loop.call_at(until, self._unmute)
        self._adjust_reading()

    def _unmute(self) -> None:
        self._unmuting = None
        self._work_off_backlog()

    def _flush(self, *, is_last: bool = False) -> None:
        self._outbox.is_flush_due = False
        outbox, size = self._outbox.pieces, self._outbox.size_bytes
        # Of a client that does not read, files stay unread as well: they are not to pile up in memory.
        if not outbox or (self._is_paused and not (is_last and size < FLUSH_BYTES)):
            return
        self._outbox.clear()
        if self._held.leaving_bytes:
            self._held.flushed()
        if self._transport is None:
            return
        self.used_at = self._loop.time()
        try:
            if size < FLUSH_BYTES:
                self._transport.write(b"".join(map(_read, outbox)))
            else:
                self._send(self._transport, outbox)
        except OSError as problem:  # records that were promised can no longer be read: nothing sensible can follow
            # A topic that was deleted or a log that was cleaned while a slow client took its time is no fault here.
            level = logging.INFO if problem.errno == errno.ESTALE else logging.ERROR
            log.log(level, "closing the connection of %s: %s", self._peer.host, problem)
            self._transport.abort()
        if self._backlog and self._blocked_by is None and not self.is_slow:
            self._loop.call_soon(
                self._work_off_backlog
            )  # it was held back by what has left now; it may be deep in there
        self._adjust_reading()

    def _send(self, transport: asyncio.Transport, pieces: list[Outgoing]) -> None:
        """Straight to the socket what it takes at once, files without reading them; then a part at a time through the
        transport, until that has enough: what a slow client has not taken yet is not to pile up in memory."""
        if transport.get_write_buffer_size() == 0 and any(isinstance(piece, FileSlice) for piece in pieces):
            pieces = self._all.send_now(transport, pieces)
        piece_bytes = FLUSH_BYTES
        if pieces and self._all.held_bytes >= HELD_ALL_BYTES:
            piece_bytes = SMALL_PIECE_BYTES
            # One piece at a time. Not 0: TLS pauses at the limit, TCP above it, and nothing would ever leave.
            transport.set_write_buffer_limits(high=1)
        while pieces and not self._is_paused:
            part, pieces = _split(pieces, piece_bytes)
            transport.writelines([_read(piece) for piece in part])
        self._outbox.put_back(pieces)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._transport is not None:
            self._held.buffer(self._transport.get_write_buffer_size())
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._held.buffer(0)
        self._flush()
        self._work_off_backlog()

    def _adjust_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        must_wait = (
            self._is_paused
            or self._held.waiting_bytes >= HELD_BYTES
            or self._waits_for_memory
            or bool(self._backlog)
            or len(self._line) >= self._all.under_way_max
            or self._unmuting is not None
        )
        if must_wait == transport.is_reading():
            if must_wait:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def close(self) -> None:
        """Send the answers that are due; what is under way is not answered any more, what was not begun never is."""
        self._abandon()
        self._flush(is_last=True)
        if self._transport is not None:
            self._transport.close()

    def end(self) -> None:
        """As `close`, but a client that does not take its answers is not waited for."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        """At once."""
        self._abandon()
        self._outbox.clear()
        if self._transport is not None:
            self._transport.abort()

    def _abandon(self) -> None:
        """A client may say that it waits for weeks, and then go: what waits for it here goes as well."""
        line, self._line = self._line, deque()
        self._backlog.clear()
        memory = self._all.memory
        memory.used_bytes -= self.under_way_bytes + self._unfinished_bytes
        memory.unfinished_bytes -= self._unfinished_bytes
        self.under_way_bytes = self._unfinished_bytes = 0
        memory.left(self)
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
