"""A request on its way through the node, and the connection it came by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from chronik.api.context import Caller
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.access.sasl import SaslLogin
from chronik.core.ports import Outgoing
from chronik.core.replica.batch_order import BatchOrder
from chronik.wire.framing import RequestHeader

_RELEASED = memoryview(b"")


class Peer:
    """The other end of a connection: what is known of it, beyond one request."""

    __slots__ = (
        "authenticated_as",
        "caller",
        "connection_id",
        "host",
        "is_forwarded",
        "is_node",
        "is_refused",
        "listener",
        "login",
        "may_be_node",
        "node_id",
        "order",
        "principal",
        "throttle_ms",
    )

    def __init__(self, connection_id: int, host: str, listener: str = "") -> None:
        self.connection_id = connection_id
        self.host = host
        self.listener = listener
        self.principal: KafkaPrincipal = ANONYMOUS  # for which it asks
        self.authenticated_as: KafkaPrincipal = ANONYMOUS  # the same, but for a node that asks for a client
        self.login: SaslLogin | None = None  # where clients log in
        self.is_refused = False  # it could not log in: its connection ends with the next answer
        self.may_be_node = True  # nothing that is known of it says that it is none
        self.is_node = False  # it has identified itself as another node of this cluster
        self.node_id = -1  # which one
        self.throttle_ms = 0  # with its next answer it is not read from for so long: it is over a quota
        self.is_forwarded = False  # it is a node's that asks for a client, whose principal and host it has
        self.order = BatchOrder()  # of the idempotent batches that it sends
        self.caller: Caller | None = None  # of its last request; None again when anything of the above changes

    def identify_as_node(self, node_id: int) -> None:
        """Another node of this cluster; -1: it did not say which."""
        self.is_node, self.node_id, self.caller = True, node_id, None

    def act_for(self, principal: KafkaPrincipal, host: str) -> None:
        """What this node asks by this connection it asks for a client, and not in its own name."""
        self.principal, self.host, self.node_id = principal, host, -1
        self.is_forwarded, self.caller = True, None

    def authenticate_as(self, principal: KafkaPrincipal) -> None:
        self.principal = self.authenticated_as = principal
        self.caller = None

    def caller_for(self, header: RequestHeader) -> Caller:
        """Mostly that of the request before: then nothing is made, and code that compares callers sees the same one."""
        caller = self.caller
        if caller is None or caller.version != header.version or caller.client_id != header.client_id:
            caller = self.caller = Caller(
                header.client_id,
                self.host,
                header.version,
                self.connection_id,
                self.is_node,
                self.node_id,
                self.order,
                self.principal,
                self.listener,
                self.login,
                self.is_forwarded,
            )
        return caller


class AnswerSlot(Protocol):
    """Takes a request's one response."""

    on_abandoned: Callable[[], None] | None  # called when the client is gone before its response is there

    def __call__(self, buffers: Sequence[Outgoing] | None) -> None:
        """The buffers of the response, `()` where the client wants none, or None to close the connection."""


class Call:
    """One request: what dispatch, forwarding and the handlers of hot requests share. `answer` takes its response."""

    __slots__ = ("answer", "caller", "frame", "header", "peer")

    def __init__(self, frame: memoryview, header: RequestHeader, peer: Peer, answer: AnswerSlot) -> None:
        self.frame = frame
        self.header = header
        self.peer = peer
        self.caller = peer.caller_for(header)
        self.answer = answer

    def release_frame(self) -> None:
        """It has been read: a response that waits for weeks does not keep the memory of its request."""
        self.frame = _RELEASED

    def identify_as_node(self, node_id: int, client: tuple[KafkaPrincipal, str] | None = None) -> None:
        """Its connection is another node's, from this request on; perhaps one by which it asks for a client."""
        self.peer.identify_as_node(node_id)
        if client is not None:
            self.peer.act_for(*client)
        self.caller = self.peer.caller_for(self.header)
