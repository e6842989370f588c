"""A client's request that may belong to another node, and the ways to have it answered: here, or there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

from chronik.api import auditing
from chronik.api.call import Call
from chronik.api.context import RequestContext
from chronik.core.ports import Outgoing
from chronik.node.routing.routes import Route
from chronik.wire.framing import SIZE_BYTES, RequestHeader
from chronik.wire.versions import APIS


class Relayed(NamedTuple):
    """Another node's whole answer, without its size, with the client's correlation id."""

    frame: memoryview
    throttle_ms: int = 0  # for how long its client has to wait, as the other node says

    @property
    def buffers(self) -> Sequence[Outgoing]:
        return len(self.frame).to_bytes(SIZE_BYTES, "big"), self.frame


class Asked(NamedTuple):
    """A request with all that is needed to answer it, wherever that is."""

    module: ModuleType
    call: Call
    context: RequestContext
    route: Route  # of its connection

    @property
    def header(self) -> RequestHeader:
        return self.call.header

    @property
    def name(self) -> str:
        return APIS[self.call.header.api_key].name

    async def here(self, request: Any) -> Any:
        """This node's response to the request or a part of it. Raises Refused."""
        response = auditing.handle(self.module, self.name, request, self.call.caller, self.context)
        return await response if asyncio.iscoroutine(response) else response
