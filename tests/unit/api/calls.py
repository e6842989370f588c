"""A call as dispatch would make it, for tests that begin at a handler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chronik.api.call import Call, Peer
from chronik.api.context import Caller
from chronik.core.ports import Outgoing
from chronik.wire.framing import RequestHeader


class KeptAnswer:
    """Hands the response to a function of the test."""

    def __init__(self, keep: Callable[[Sequence[Outgoing] | None], object]) -> None:
        self._keep = keep
        self.on_abandoned: Callable[[], None] | None = None

    def __call__(self, buffers: Sequence[Outgoing] | None) -> None:
        self._keep(buffers)


def call_of(
    frame: bytes | bytearray | memoryview,
    header: RequestHeader,
    caller: Caller,
    answer: Callable[[Sequence[Outgoing] | None], object],
) -> Call:
    peer = Peer(caller.connection_id, caller.client_host, caller.listener)
    call = Call(memoryview(frame), header, peer, KeptAnswer(answer))
    call.caller = caller
    return call
