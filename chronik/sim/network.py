"""The Network door of a simulated host, and the wires between hosts.

A connection is two pipes. In each, bytes keep their order, as TCP has it; when they arrive depends on the wire's mood.
What a partition holds back arrives when it heals. A host that lost power does not say goodbye: a host it was connected
to hears nothing, until it sends something to the host as it is then, and hears that there is no such connection.

Within a connection nothing is reordered or doubled: TCP numbers its bytes, and the reader never sees it happen. What
is real is one level up. Requests on different connections overtake each other, and who hears no answer says the same
again on another one. What it had sent on the first is lost, or processed already, or it strays: it arrives later, maybe
after its own repetition, as from a proxy, a tunnel or a long way that still had it.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from chronik.core.ports import FileSlice, Outgoing
from chronik.core.types import Buffer
from chronik.sim.chance import SimChance
from chronik.sim.story import WorldStory

HIGH_WATER_BYTES = 64 * 1024
LOW_WATER_BYTES = 16 * 1024
SEGMENT_BYTES = 16 * 1024  # the most that arrives at once
CONNECT_S = 3.0
SEND_AGAIN_S = (0.2, 1.6)
GIVEN_UP = 0.1  # of the pieces that are lost, those that end the connection
STRAYS = 0.5  # of the connections that their sender gives up, those whose bytes arrive all the same
STRAY_S = (0.0, 4.0)


@dataclass(slots=True)
class WireMood:
    """How bytes travel from one host to another."""

    delay_s: tuple[float, float] = (0.0002, 0.002)
    bytes_per_s: float = 50_000_000.0
    is_cut: bool = False
    loss: float = 0.0  # how often a piece has to be sent again, which takes its time or ends the connection
    given_up: float = GIVEN_UP  # how often it is the latter


class Wires:
    """All hosts and what lies between them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: SimChance, story: WorldStory) -> None:
        self.loop = loop
        self.chance = chance
        self.strays = chance.other("strays")
        self.story = story
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self.moods: dict[tuple[str, str], WireMood] = {}
        self.connections: list[tuple[SimTransport, SimTransport]] = []
        self.dark: set[str] = set()  # hosts without power: nothing there even refuses
        self.context = contextvars.Context()  # what travels is the deed of no task
        self._made = 0
        self.strayed = 0  # how often something was given up by its sender that will still arrive

    def mood(self, source: str, target: str) -> WireMood:
        mood = self.moods.get((source, target))
        if mood is None:
            mood = self.moods[source, target] = WireMood()
        return mood

    def heal(self) -> None:
        """All wires are good again, and what they held back goes on."""
        self.moods.clear()
        self.go_on()

    def go_on(self) -> None:
        """What was held back by a wire that is whole again goes on."""
        for ends in list(self.connections):
            for end in ends:
                end.pump()

    def host_lost_power(self, host: str) -> None:
        """Its connections are gone and no peer has heard of it."""
        self.dark.add(host)
        for address in [address for address, listener in self.listeners.items() if listener.host == host]:
            del self.listeners[address]
        for ends in list(self.connections):
            for end in ends:
                if end.host == host:
                    end.vanish()

    def process_died(self, host: str) -> None:
        """The system closes what the process had open."""
        for address in [address for address, listener in self.listeners.items() if listener.host == host]:
            del self.listeners[address]
        for ends in list(self.connections):
            for end in ends:
                if end.host == host:
                    end.reset_by_system()

    def connect(self, client: SimTransport, server: SimTransport) -> None:
        client.other, server.other = server, client
        self._made += 1
        client.number = server.number = self._made
        self.connections.append((client, server))

    def forget(self, end: SimTransport) -> None:
        self.connections = [ends for ends in self.connections if not (end in ends and all(e.is_gone for e in ends))]


class SimListener:
    """A port that is listened on."""

    def __init__(self, wires: Wires, host: str, address: tuple[str, int], accept: Callable[[], Any]) -> None:
        self._wires = wires
        self.host = host
        self.address = address
        self.accept = accept
        self.context = contextvars.copy_context()

    async def close(self) -> None:
        self._wires.listeners.pop(self.address, None)


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, wires: Wires, host: str, peer: str, protocol: Any, context: contextvars.Context) -> None:
        super().__init__()
        self._wires = wires
        self.host = host
        self.peer = peer
        self.protocol = protocol
        self.context = context  # that of the process this end belongs to
        self._way = f"{host}>{peer}".encode()
        self.other: SimTransport = self
        self.number = 0
        self.is_gone = False  # nothing is sent or heard here any more
        self.has_vanished = False  # gone without a word: a power cut
        self._is_closing = False
        self._is_reading = True
        self._is_writing_paused = False
        self._on_the_way: deque[bytes] = deque()  # to the other end; b"" is the end of it
        self._on_the_way_bytes = 0
        self._arrival: asyncio.TimerHandle | None = None
        self._is_stray = False  # given up, and yet to arrive
        self._late_s = 0.0  # how much later
        self._arrived: deque[bytes] = deque()  # here, and not read yet
        self._is_delivery_due = False

    # --- what a protocol uses

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer, 40_000 + self.number) if name == "peername" else default

    def write(self, data: Any) -> None:
        if self.is_gone or self._is_closing:
            return
        size = len(data)
        if size <= SEGMENT_BYTES:
            if size:
                self._on_the_way.append(bytes(data))
        else:
            for start in range(0, size, SEGMENT_BYTES):
                self._on_the_way.append(bytes(data[start : start + SEGMENT_BYTES]))
        self._on_the_way_bytes += size
        if self._on_the_way_bytes > HIGH_WATER_BYTES and not self._is_writing_paused:
            self._is_writing_paused = True
            self.protocol.pause_writing()
        self.pump()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._on_the_way_bytes

    def is_closing(self) -> bool:
        return self._is_closing or self.is_gone

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closing()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._deliver_soon()

    def close(self) -> None:
        """What was written still arrives; nothing more is read here."""
        if self._is_closing or self.is_gone:
            return
        self._is_closing = True
        self._on_the_way.append(b"")
        self.pump()

    def abort(self) -> None:
        """What is on the way is lost or strays. The other end hears of it, if the wire lets it."""
        if self.is_gone:
            return
        self._lose_or_stray()
        self._is_closing = True
        self._on_the_way.append(b"")
        self._leave(None)
        self.pump()

    # --- the wire

    def pump(self) -> None:
        """See that the next piece on the way has a time of arrival, unless the wire is cut."""
        if self._arrival is not None or not self._on_the_way or self.has_vanished:
            return
        mood = self._wires.mood(self.host, self.peer)
        if mood.is_cut:
            return
        chance = self._wires.chance
        delay_s = chance.between(*mood.delay_s) + len(self._on_the_way[0]) / mood.bytes_per_s
        if mood.loss and chance.happens(mood.loss):
            delay_s += chance.between(*SEND_AGAIN_S)
            if chance.happens(mood.given_up):
                self.reset()
                if not self._on_the_way:
                    self.other.reset()
                    return
        delay_s += self._late_s
        self._late_s = 0.0
        self._arrival = self._wires.loop.call_later(delay_s, self._arrive, context=self._wires.context)

    def _arrive(self) -> None:
        self._arrival = None
        if not self._on_the_way or self._wires.mood(self.host, self.peer).is_cut:
            return
        piece = self._on_the_way.popleft()
        self._on_the_way_bytes -= len(piece)
        self._wires.story.count(b"%s %d %d" % (self._way, self.number, len(piece)))
        other = self.other
        if other.has_vanished:
            # The host is down: silence. It is up again: it knows nothing of this connection.
            if any(listener.host == other.host for listener in self._wires.listeners.values()):
                self._hear(self._lost, ConnectionResetError(errno.ECONNRESET, "no such connection"))
        elif not other.is_gone:
            if piece:
                if self._is_stray:
                    self._is_stray = False
                    self._wires.story.tell(self.host, f"had given up what arrives at {self.peer} now")
                other._arrived.append(piece)
                other._deliver_soon()
            else:
                other._hear(other._ended)
        if not piece and not self.is_gone:
            self._hear(self._lost, None)
        if self._is_writing_paused and self._on_the_way_bytes < LOW_WATER_BYTES:
            self._is_writing_paused = False
            self._hear(self._resume_writing)
        self.pump()

    def _resume_writing(self) -> None:
        if not self.is_gone:
            self.protocol.resume_writing()

    def _hear(self, action: Callable[..., None], *args: Any) -> None:
        """Something reaches this end: its process takes note when it can."""
        self._wires.loop.call_soon(action, *args, context=self.context)

    def _deliver_soon(self) -> None:
        if self._arrived and self._is_reading and not self._is_delivery_due:
            self._is_delivery_due = True
            self._hear(self._deliver)

    def _deliver(self) -> None:
        self._is_delivery_due = False
        if not self._arrived or not self.is_reading():
            return
        piece = self._arrived.popleft()
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            space = cast(memoryview, self.protocol.get_buffer(len(piece)))
            taken = min(len(space), len(piece))
            space[:taken] = piece[:taken]
            if taken < len(piece):
                self._arrived.appendleft(piece[taken:])
            self.protocol.buffer_updated(taken)
        else:
            self.protocol.data_received(piece)
        self._deliver_soon()

    def _ended(self) -> None:
        """The other end closed: so do we, as asyncio does when a protocol says nothing else."""
        if self._arrived and self.is_reading():
            self._hear(self._ended)  # what came before is read first
            return
        self._lost(None)

    def _lost(self, problem: Exception | None) -> None:
        if not self.is_gone:
            self._leave(problem)

    def _leave(self, problem: Exception | None) -> None:
        self.is_gone = True
        self._arrived.clear()
        self._wires.forget(self)
        self._wires.loop.call_soon(self.protocol.connection_lost, problem, context=self.context)

    # --- what happens to it

    def _lose_or_stray(self) -> None:
        """Nothing sends again what did not arrive yet. Something between the two may have it, and give it out when the
        sender has long said the same on another connection."""
        strays = self._wires.strays
        if self._on_the_way and strays.happens(STRAYS):
            self._is_stray, self._late_s = True, strays.between(*STRAY_S)
            self._wires.strayed += 1
            if self._arrival is not None:
                self._arrival.cancel()
                self._arrival = None
                self.pump()
        else:
            self._on_the_way.clear()
            self._on_the_way_bytes = 0

    def reset(self) -> None:
        """A reset reaches this end: what was under way to it is lost, what it sent is lost or strays."""
        self._lose_or_stray()
        self._hear(self._lost, ConnectionResetError(errno.ECONNRESET, "reset"))

    def reset_by_system(self) -> None:
        """The process died: what it had written still arrives, then the end."""
        if not self.is_gone:
            self.is_gone = True
            self._on_the_way.append(b"")
            self.pump()
            self._wires.forget(self)

    def vanish(self) -> None:
        self.is_gone = self.has_vanished = True
        self._on_the_way.clear()
        self._on_the_way_bytes = 0
        self._arrived.clear()
        self._wires.forget(self)


class SimNetwork:
    """The Network door of one host."""

    def __init__(self, wires: Wires, host: str) -> None:
        self._wires = wires
        self.host = host

    @property
    def strayed(self) -> int:
        return self._wires.strayed

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol], *, protocol: str = "PLAINTEXT"
    ) -> SimListener:
        address = (host, port)
        if address in self._wires.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._wires.listeners[address] = listener = SimListener(self._wires, self.host, address, accept)
        return listener

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> SimTransport:
        """Raises OSError."""
        wires = self._wires
        there, back = wires.mood(self.host, host), wires.mood(host, self.host)
        await asyncio.sleep(wires.chance.between(*there.delay_s) + wires.chance.between(*back.delay_s))
        if there.is_cut or back.is_cut or host in wires.dark:
            await asyncio.sleep(CONNECT_S)
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        listener = wires.listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        client = SimTransport(wires, self.host, host, protocol, contextvars.copy_context())
        server = SimTransport(wires, host, self.host, None, listener.context)
        wires.connect(client, server)
        wires.loop.call_soon(_accept, listener, server, context=listener.context)
        protocol.connection_made(client)
        return client

    def send_now(self, transport: asyncio.Transport, pieces: list[Outgoing]) -> list[Outgoing]:
        """Some of it, by chance: the socket takes what it likes."""
        room = self._wires.chance.below(2 * sum(map(len, pieces)) + 1)
        for index, piece in enumerate(pieces):
            taken = min(room, len(piece))
            transport.write(_part(piece, taken))
            room -= taken
            if taken < len(piece):
                return [_rest(piece, taken), *pieces[index + 1 :]]
        return []


def _accept(listener: SimListener, server: SimTransport) -> None:
    server.protocol = listener.accept()
    server.protocol.connection_made(server)
    server._deliver_soon()


def _part(piece: Outgoing, taken: int) -> Buffer:
    if isinstance(piece, FileSlice):
        return bytes(FileSlice(piece.file, piece.position, taken))
    return memoryview(piece)[:taken]


def _rest(piece: Outgoing, taken: int) -> Outgoing:
    if isinstance(piece, FileSlice):
        return FileSlice(piece.file, piece.position + taken, piece.length - taken)
    return memoryview(piece)[taken:]
