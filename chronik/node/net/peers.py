"""Links to other nodes: requests out, answers in, in the order of the requests.

A link connects when it is first used. When it is lost, everything under way on it fails at once with `Unreachable`, and
the next request connects again, after a pause that grows while that does not work: a caller that asks again and again
is held back here and need not wait by itself. A request that is not answered in time ends the connection, because
it could not be known what an answer that comes later belongs to.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from chronik import __version__
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.scram import AuthenticationFailed
from chronik.core.errors import Code
from chronik.core.ports import Network
from chronik.core.types import Buffer
from chronik.node.net.link_login import LinkLogin
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.trace.metrics import Metrics
from chronik.wire.codec import decode_response, encode_request
from chronik.wire.errors import ImpossibleSize, Malformed
from chronik.wire.framing import SHARED_BYTES, Inbox
from chronik.wire.versions import API_VERSIONS, APIS, NODE_SOFTWARE, node_name, node_name_for

log = logging.getLogger(__name__)

Client: TypeAlias = tuple[KafkaPrincipal, str]  # and its host

ANSWER_BYTES_MAX = 256 * 1024 * 1024  # memory is taken as the bytes come in, so this only bounds nonsense
CONNECT_MS = 1000  # until the versions of the other side are known
BACKOFF_MS = 20  # after the first failure; twice that after each further one
BACKOFF_MAX_MS = 500
API_VERSIONS_SPOKEN = 3
NO_TIMEOUT = -1
ANY_VERSION = -1
UNKNOWN = (0, -1)  # the range of a request that the other side does not know

_KEY_VERSION = struct.Struct(">hh")
_SIZE = struct.Struct(">i")
_ID = struct.Struct(">i")
_ID_AT = 4  # in a request: behind its key and version
_HEAD_BYTES = _ID_AT + _ID.size


class Unreachable(Exception):
    """A node gave no answer; what became of the request is not known. The message says which node and why."""


class NotSent(Unreachable):
    """The request never left: it can be sent again, here or elsewhere, without happening twice."""


class _Asked:
    """A request on its way: a `message` to be encoded, or the `pieces` of a frame."""

    __slots__ = ("answer", "api_key", "deadline", "message", "own_id", "pieces", "version", "wire_id")

    def __init__(
        self,
        answer: asyncio.Future[Any],
        api_key: int,
        version: int,
        *,
        message: Any = None,
        pieces: Sequence[Buffer] = (),
    ) -> None:
        self.answer = answer
        self.api_key = api_key
        self.version = version
        self.message = message
        self.pieces = pieces
        self.own_id: int | None = None  # the caller's correlation id, if it sends a whole frame
        self.wire_id = 0  # the link's
        self.deadline: Deadline | None = None


class _Wire(asyncio.BufferedProtocol):
    """One connection. Tells its link what comes in, until the link lets go of it."""

    def __init__(self, link: Link) -> None:
        self._link: Link | None = link
        self._inbox = Inbox(ANSWER_BYTES_MAX, "of answers", link.scratch)
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from asyncio's

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._link is not None:
            self._link.lost("it hung up" if exc is None else str(exc))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        nonsense: ImpossibleSize | None = None
        try:
            frames = self._inbox.filled(nbytes)
        except ImpossibleSize as problem:
            nonsense, frames = problem, problem.frames
        try:
            for frame in frames:
                assert self._link is not None  # a connection that was let go of is not read from
                self._link.answered(frame)
        except Malformed as problem:
            if self._link is not None:
                self._link.lost(f"it answered nonsense: {problem}")
            return
        if nonsense is not None and self._link is not None:
            self._link.lost(f"it answered nonsense: {nonsense}")

    def let_go(self, *, is_flushed: bool) -> None:
        """Nothing is heard of this connection any more; what was written still leaves if it is to be flushed."""
        self._link = None
        if self.transport is not None:
            if is_flushed:
                self.transport.close()
            else:
                self.transport.abort()


class Link:
    """One ordered connection to one node, made when it is needed."""

    def __init__(self, peers: Peers, node_id: int, name: str) -> None:
        self.node_id = node_id
        self._name = name  # the client id of what is asked
        self.scratch = peers.scratch
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_up = False  # connected, and the other side has said what it speaks
        self._ranges: dict[int, tuple[int, int]] = {}
        self._unsent: deque[_Asked] = deque()  # waits for the connection
        self._unanswered: deque[_Asked] = deque()  # sent, in this order
        self._last_id = 0
        self._backoff_ms = 0
        self._connect_at = 0.0  # not before
        self._is_closed = False

    def __str__(self) -> str:
        address = self._peers.address_of(self.node_id)
        return f"node {self.node_id}" + ("" if address is None else f" at {address[0]}:{address[1]}")

    # --- asking

    def ask(self, api_key: int, message: Any, *, timeout_ms: int) -> asyncio.Future[Any]:
        """Send a request, written in its newest type, in the newest version both sides know; the answer is of its
        newest type. Fails with Unreachable."""
        return self._ask(_Asked(self._loop.create_future(), api_key, ANY_VERSION, message=message), timeout_ms)

    def ask_frame(self, pieces: Sequence[Buffer], *, timeout_ms: int) -> asyncio.Future[memoryview]:
        """Send a whole request (without its size) as it is, but for its correlation id; the result is the whole answer
        (without its size), with the asker's id put back. The pieces must stay as they are until it is written. Fails
        with Unreachable."""
        if len(pieces[0]) < _HEAD_BYTES:
            pieces = (b"".join(pieces),)
        api_key, version = _KEY_VERSION.unpack_from(pieces[0])
        asked = _Asked(self._loop.create_future(), api_key, version, pieces=pieces)
        (asked.own_id,) = _ID.unpack_from(pieces[0], _ID_AT)
        return self._ask(asked, timeout_ms)

    def _ask(self, asked: _Asked, timeout_ms: int) -> asyncio.Future[Any]:
        if self._is_closed:
            self._fail(asked, NotSent(f"the link to {self} is closed"))
            return asked.answer
        if timeout_ms != NO_TIMEOUT:
            asked.deadline = self._peers.deadlines.after_ms(timeout_ms, lambda: self._timed_out(asked, timeout_ms))
        if self._is_up:
            self._send(asked)
        else:
            self._unsent.append(asked)
            if self._connecting is None:
                self._connecting = self._loop.create_task(self._connect())
        return asked.answer

    def _send(self, asked: _Asked) -> None:
        """Write it. One that cannot be sent fails alone."""
        if asked.answer.done():  # cancelled while it waited
            self._settle(asked)
            return
        try:
            frame = self._framed(asked)
        except Exception as problem:
            self._fail(asked, problem)
            return
        asked.message, asked.pieces = None, ()
        assert self._wire is not None  # a link that is up has one
        assert self._wire.transport is not None  # or connection_lost would have been called
        self._wire.transport.writelines(frame)
        self._unanswered.append(asked)

    def _framed(self, asked: _Asked) -> Sequence[Buffer]:
        """Raises Unreachable when the other side does not know such a request."""
        asked.wire_id = self._last_id = self._last_id % (2**31 - 1) + 1
        if asked.own_id is None:
            if asked.version == ANY_VERSION:
                asked.version = self._version_of(asked.api_key)
            return (encode_request(asked.api_key, asked.version, asked.wire_id, self._name, asked.message),)
        lowest, highest = self._ranges.get(asked.api_key, UNKNOWN)
        if not lowest <= asked.version <= highest:
            raise self._speaks_another(asked.api_key, f"version {asked.version}")
        head = _SIZE.pack(sum(map(len, asked.pieces))) + asked.pieces[0][:_ID_AT] + _ID.pack(asked.wire_id)
        return (head, memoryview(asked.pieces[0])[_HEAD_BYTES:], *asked.pieces[1:])

    def _version_of(self, api_key: int) -> int:
        """The newest that both sides know. Raises Unreachable."""
        ours = APIS[api_key]
        lowest, highest = self._ranges.get(api_key, UNKNOWN)
        version = min(ours.highest, highest)
        if version < max(ours.supported, lowest):
            raise self._speaks_another(api_key, f"one of {ours.supported} to {ours.highest}")
        return version

    def _speaks_another(self, api_key: int, wanted: str) -> Unreachable:
        name = APIS[api_key].name if api_key in APIS else f"request {api_key}"
        known = self._ranges.get(api_key)
        spoken = "does not know that request" if known is None else f"knows {known[0]} to {known[1]}"
        return Unreachable(f"{self} speaks another version: of {name} we need {wanted}, and it {spoken}")

    # --- connecting

    async def _connect(self) -> None:
        """Until the other side has said what it speaks; then what has been waiting is sent."""
        try:
            await asyncio.sleep(max(0.0, self._connect_at - self._loop.time()))
            async with asyncio.timeout(CONNECT_MS / 1000):
                await self._open()
        except TimeoutError:
            self._not_reached(f"it does not answer within {CONNECT_MS} ms")
        except ConnectionRefusedError as problem:
            self._not_reached(str(problem))
            self._peers.refused(self.node_id)
        except (Unreachable, OSError) as problem:
            self._not_reached(str(problem))
        except Exception as problem:
            self._peers.fault("fault when connecting to a node")
            self._not_reached(repr(problem))

    async def _open(self) -> None:
        """Raises OSError, Unreachable."""
        address = self._peers.address_of(self.node_id)
        if address is None:
            raise Unreachable("its address is not known")
        wire = self._wire = _Wire(self)
        await self._peers.network.connect(*address, wire)
        from kio.schema.api_versions.v4.request import ApiVersionsRequest  # a node that is alone starts without it

        if self._peers.login is not None:
            try:
                await self._peers.login.log_in(self._ask_first)
            except AuthenticationFailed as problem:
                raise Unreachable(str(problem)) from problem
        message = ApiVersionsRequest(client_software_name=NODE_SOFTWARE, client_software_version=__version__)
        response = await self._ask_first(API_VERSIONS, API_VERSIONS_SPOKEN, message)
        if response.error_code != Code.NONE:
            raise Unreachable(f"asked for the versions it speaks, it said {Code(response.error_code).name}")
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._is_up = True
        self._connecting = None
        self._backoff_ms = 0
        self._peers.reached(self)
        while self._unsent:
            self._send(self._unsent.popleft())

    def _ask_first(self, api_key: int, version: int, message: Any) -> asyncio.Future[Any]:
        """Before it is known what the other side speaks."""
        asked = _Asked(self._loop.create_future(), api_key, version, message=message)
        self._send(asked)
        return asked.answer

    def _not_reached(self, reason: str) -> None:
        self._peers.not_reached(self, reason)
        self._connecting = None  # this very task
        self.lost(reason)

    # --- what the connection tells

    def answered(self, frame: memoryview) -> None:
        """The answer to the oldest request, or nonsense. Raises Malformed."""
        if len(frame) < _ID.size:
            raise Malformed(f"an answer of {len(frame)} bytes")
        (wire_id,) = _ID.unpack_from(frame)
        if not self._unanswered or self._unanswered[0].wire_id != wire_id:
            raise Malformed(f"an answer to request {wire_id}, and that is not the one it is due")
        asked = self._unanswered[0]
        if asked.own_id is None:
            result = decode_response(asked.api_key, asked.version, frame)
        else:
            _ID.pack_into(frame, 0, asked.own_id)
            result = frame
        self._unanswered.popleft()
        self._finish(asked, result)

    def lost(self, reason: str) -> None:
        """The connection is of no use any more: everything under way fails, and the next request makes a new one."""
        self._backoff_ms = min(max(BACKOFF_MS, 2 * self._backoff_ms), BACKOFF_MAX_MS)
        self._connect_at = self._loop.time() + self._backoff_ms / 1000
        self._let_go(f"{self}: {reason}", is_flushed=False)

    def _let_go(self, reason: str, *, is_flushed: bool) -> None:
        wire, self._wire = self._wire, None
        connecting, self._connecting = self._connecting, None
        self._is_up = False
        if wire is not None:
            wire.let_go(is_flushed=is_flushed)
        if connecting is not None:
            connecting.cancel()
        sent, unsent = [*self._unanswered], [*self._unsent]
        self._unanswered.clear()
        self._unsent.clear()
        for asked in sent:
            self._fail(asked, Unreachable(reason))
        for asked in unsent:
            self._fail(asked, NotSent(reason))

    def _timed_out(self, asked: _Asked, timeout_ms: int) -> None:
        name = APIS[asked.api_key].name if asked.api_key in APIS else f"request {asked.api_key}"
        reason = f"no answer to {name} in {timeout_ms} ms"
        if asked in self._unsent:  # nothing was sent, so no order is lost
            self._unsent.remove(asked)
            self._fail(asked, NotSent(f"{self}: {reason}"))
        else:
            self.lost(reason)

    # --- ends

    def _settle(self, asked: _Asked) -> None:
        if asked.deadline is not None:
            self._peers.deadlines.cancel(asked.deadline)

    def _finish(self, asked: _Asked, result: Any) -> None:
        self._settle(asked)
        if not asked.answer.done():  # cancelled: nothing wants it any more
            asked.answer.set_result(result)

    def _fail(self, asked: _Asked, problem: Exception) -> None:
        self._settle(asked)
        if not asked.answer.done():
            asked.answer.set_exception(problem)
            asked.answer.exception()  # what still waits gets it; if nothing does, that is no fault

    def close(self) -> None:
        """For good. Everything under way fails with Unreachable."""
        self._is_closed = True
        self._let_go(f"the link to {self} is closed", is_flushed=True)
        self._peers.forget(self)


class Peers:
    """All links of this node to others."""

    def __init__(
        self,
        network: Network,
        deadlines: Deadlines,
        metrics: Metrics,
        node_id: int,
        address_of: Callable[[int], tuple[str, int] | None],
        login: LinkLogin | None = None,
    ) -> None:
        self.login = login  # None where nodes do not log in to each other
        self.network = network
        self.deadlines = deadlines
        self.address_of = address_of
        self._own_id = node_id
        self.name = node_name(node_id)  # the client id of what we ask
        self._refusal_listeners: list[Callable[[int], None]] = []  # in the order in which they came; none needs another
        self.scratch = bytearray(SHARED_BYTES)  # what all links read into
        self._metrics = metrics
        self._kept: dict[tuple[int, str], Link] = {}
        self._open: dict[Link, None] = {}
        self._unreached: dict[int, None] = {}  # said so in the log; not again until they are reached

    def link(self, node_id: int, purpose: str) -> Link:
        """The link to a node that is kept for this purpose."""
        link = self._kept.get((node_id, purpose))
        if link is None:
            link = self._kept[node_id, purpose] = self.new_link(node_id)
        return link

    def new_link(self, node_id: int, client: Client | None = None) -> Link:
        """A link of the caller's own, who closes it; one by which this node asks for a client, if there is one."""
        name = self.name if client is None else node_name_for(self._own_id, str(client[0]), client[1])
        link = Link(self, node_id, name)
        self._open[link] = None
        return link

    def close(self) -> None:
        for link in list(self._open):
            link.close()

    # --- what links tell

    def forget(self, link: Link) -> None:
        self._open.pop(link, None)
        for key in [key for key, kept in self._kept.items() if kept is link]:
            del self._kept[key]

    def reached(self, link: Link) -> None:
        if link.node_id in self._unreached:
            del self._unreached[link.node_id]
            log.info("%s is reached again", link)

    def not_reached(self, link: Link, reason: str) -> None:
        if link.node_id not in self._unreached:
            self._unreached[link.node_id] = None
            log.warning("%s cannot be reached: %s", link, reason)

    def refused(self, node_id: int) -> None:
        for listener in list(self._refusal_listeners):
            try:
                listener(node_id)
            except Exception:  # the others are to hear of it as well
                self.fault("fault in a subscriber to lost nodes")

    def listen_for_refusals(self, listener: Callable[[int], None]) -> None:
        """Hear of nodes that refuse connections: their process is gone."""
        self._refusal_listeners.append(listener)

    def stop_listening(self, listener: Callable[[int], None]) -> None:
        if listener in self._refusal_listeners:
            self._refusal_listeners.remove(listener)

    def fault(self, what: str) -> None:
        self._metrics.faults += 1
        log.exception(what)
