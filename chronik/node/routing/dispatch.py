"""From a frame to its handler and back to a frame.

What a handler raises decides the answer: Refused becomes an error code in the response; anything else is a fault,
answered UNKNOWN_SERVER_ERROR, logged and counted. No error is ever answered as success. Bytes that are no request end
the connection.

What does not belong on this node is given to `forwarding`. Other nodes say in their first request who they are: theirs
is answered here or refused, never sent on. What a connection says later in the name of a node must be in that node's
name. Whether it was the node that said so, only authentication can tell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

from chronik.api.context import Caller, HeldUp, RequestContext
from chronik.api.refusals import trace_refused_request
from chronik.api.table import API_VERSIONS, APIS, DIRECT, OVERLAPS, module_of
from chronik.core.errors import Code, Refused
from chronik.node.net.connection import Peer, Slot
from chronik.node.routing.forwarding import CONTROLLER_BOUND, Forwarding
from chronik.node.routing.one_address import Relayed
from chronik.trace.metrics import Metrics
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.errors import Malformed
from chronik.wire.framing import RequestHeader, read_header
from chronik.wire.versions import EVERY_API, INSPECT, NODE_SOFTWARE, PRODUCE, node_id_of

log = logging.getLogger(__name__)


def caller_of(header: RequestHeader, peer: Peer) -> Caller:
    """Mostly the one of the request before: then nothing is made, and who compares callers sees that it is the same."""
    caller = peer.caller
    if caller is None or caller.version != header.version or caller.client_id != header.client_id:
        caller = peer.caller = Caller(
            header.client_id, peer.host, header.version, peer.connection_id, peer.is_node, peer.node_id, peer.order
        )
    return caller


class Dispatch:
    """Begins requests and sees that each gets its answer."""

    def __init__(self, context: RequestContext, metrics: Metrics, forwarding: Forwarding | None = None) -> None:
        self._context = context
        self._metrics = metrics
        self._forwarding = forwarding
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order they began
        # Until this node knows what the cluster is like, it could tell clients nothing that is true. Of several nodes
        # another can be asked, so they are hung up on; a node that is alone is ready in a moment, so they wait.
        self.serves_clients = True
        self.lets_clients_wait = False
        self._early: list[tuple[memoryview, Peer, Slot]] = []

    def start(self, frame: memoryview, peer: Peer, answer: Slot) -> bool:
        header = read_header(frame)
        api = APIS.get(header.api_key)
        if api is None or not api.lowest <= header.version <= api.highest:
            is_inspect = header.api_key == INSPECT and header.version == 0
            return self._look(frame, header, peer, answer) if is_inspect else self._unknown(header, answer)
        if not (self.serves_clients or peer.is_node or header.api_key == API_VERSIONS):
            if self.lets_clients_wait:
                self._early.append((frame, peer, answer))
                return False
            answer(None)
            return True
        self._metrics.requests[header.api_key] += 1
        caller = caller_of(header, peer)
        forwarding = self._forwarding
        try:
            module = module_of(header.api_key)
            if forwarding is not None and header.api_key in forwarding.taken:
                if self._forward(forwarding, module, frame, header, caller, answer):
                    return False
            elif header.api_key in DIRECT:
                begun = module.start(frame, header, caller, self._context, answer)
                if begun is not None and self._is_held_up(begun, answer):
                    return False
            else:
                request = decode_request(header.api_key, header.version, frame, header.body, module.REQUEST)
                if header.api_key == API_VERSIONS and request.client_software_name == NODE_SOFTWARE:
                    peer.is_node, peer.node_id, peer.caller = True, node_id_of(header.client_id), None
                self._handle(module, request, header, caller, answer)
        except Malformed:
            raise
        except Exception:
            self._fault(header, caller)
            answer(None)  # parts of it may have been appended: only hanging up is true
        return header.api_key in OVERLAPS

    def serve_clients(self) -> None:
        """From now on; first those who came early."""
        self.serves_clients = True
        early, self._early = self._early, []
        for frame, peer, answer in early:
            try:
                self.start(frame, peer, answer)
            except Malformed as problem:
                log.warning("closing the connection of %s: %s", peer.host, problem)
                answer(None)

    def _look(self, frame: memoryview, header: RequestHeader, peer: Peer, answer: Slot) -> bool:
        """It is answered at any time: while a node starts it is most worth having."""
        self._metrics.requests[INSPECT] += 1
        caller = caller_of(header, peer)
        module_of(INSPECT).start(frame, header, caller, self._context, answer)
        return False

    def _unknown(self, header: RequestHeader, answer: Slot) -> bool:
        if header.api_key != API_VERSIONS:
            raise Malformed(f"request {header.api_key} version {header.version} is not spoken here")
        self._metrics.refused(API_VERSIONS, Code.UNSUPPORTED_VERSION)
        response = module_of(API_VERSIONS).answer(Code.UNSUPPORTED_VERSION)
        answer((encode_response(API_VERSIONS, 0, header.correlation_id, response),))
        return True

    def _forward(
        self,
        forwarding: Forwarding,
        module: ModuleType,
        frame: memoryview,
        header: RequestHeader,
        caller: Caller,
        answer: Slot,
    ) -> bool:
        """Answer what may belong elsewhere. True when the next request has to wait for that."""
        if header.api_key in DIRECT:
            start = module.start if caller.is_node or header.api_key == PRODUCE else forwarding.fetch
            begun = start(frame, header, caller, self._context, answer)
            return begun is not None and self._is_held_up(begun, answer)
        request = decode_request(header.api_key, header.version, frame, header.body, module.REQUEST)
        if not caller.is_node:
            handling = forwarding.handle(module, request, frame, header, caller, self._context)
            self.watch(self._wait_for_response(module, request, header, caller, answer, handling))
        elif header.api_key in CONTROLLER_BOUND and not forwarding.is_controller:
            refusal = Refused(Code.NOT_CONTROLLER)
            self._answer_problem(module, request, header, caller, answer, refusal)
        else:
            self._handle(module, request, header, caller, answer)
        return False

    def _is_held_up(self, begun: Callable[[], None] | HeldUp, answer: Slot) -> bool:
        """Whether the next request has to wait for the answer to what has begun."""
        answer.on_abandoned = begun.on_abandoned if isinstance(begun, HeldUp) else begun
        return isinstance(begun, HeldUp)

    def _handle(self, module: ModuleType, request: Any, header: RequestHeader, caller: Caller, answer: Slot) -> None:
        try:
            response = module.handle(request, caller, self._context)
        except Exception as problem:
            self._answer_problem(module, request, header, caller, answer, problem)
            return
        if asyncio.iscoroutine(response):
            self.watch(self._wait_for_response(module, request, header, caller, answer, response))
        else:
            self._answer(module, request, header, caller, answer, response)

    async def _wait_for_response(
        self,
        module: ModuleType,
        request: Any,
        header: RequestHeader,
        caller: Caller,
        answer: Slot,
        handling: Coroutine[Any, Any, Any],
    ) -> None:
        try:
            response = await handling
        except Exception as problem:
            self._answer_problem(module, request, header, caller, answer, problem)
            return
        self._answer(module, request, header, caller, answer, response)

    def _answer(
        self, module: ModuleType, request: Any, header: RequestHeader, caller: Caller, answer: Slot, response: Any
    ) -> None:
        if isinstance(response, Relayed):
            answer(response.buffers)
            return
        try:
            frame = encode_response(header.api_key, header.version, header.correlation_id, response)
        except Exception as problem:
            self._answer_problem(module, request, header, caller, answer, problem)
            return
        answer((frame,))

    def _answer_problem(
        self, module: ModuleType, request: Any, header: RequestHeader, caller: Caller, answer: Slot, problem: Exception
    ) -> None:
        code, message = Code.UNKNOWN_SERVER_ERROR, None
        if isinstance(problem, Refused):
            code, message = problem.code, problem.message
            self._metrics.refused(header.api_key, code)
            trace_refused_request(self._context, EVERY_API[header.api_key].name, caller, code, message, request)
        else:
            self._fault(header, caller, problem)
        try:
            response = module.refuse(request, code, message)
            answer((encode_response(header.api_key, header.version, header.correlation_id, response),))
        except Exception as second:
            self._fault(header, caller, second)
            answer(None)

    def _fault(self, header: RequestHeader, caller: Caller, problem: Exception | None = None) -> None:
        self._metrics.faults += 1
        name = EVERY_API[header.api_key].name
        log.error(
            "fault in %s v%d of client %r at %s",
            name,
            header.version,
            caller.client_id,
            caller.client_host,
            exc_info=problem or True,
        )

    def watch(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task that is kept until it is done and whose fault is not lost."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._watched)

    def _watched(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._metrics.faults += 1
            log.error("fault in background work", exc_info=task.exception())

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
