"""From a request frame to its handler and back to a response frame (Kafka's KafkaApis).

What a handler raises decides the answer: Refused becomes an error code in the response; anything else is a fault,
answered UNKNOWN_SERVER_ERROR, logged and counted. No error is ever answered as success. Bytes that are no request end
the connection.

What does not belong on this node is given to `forwarding`. Requests of other nodes (`net.node_identity`) are answered
here or refused, never sent on. What a connection says later in the name of a node must be in that node's name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import ModuleType
from typing import Any

from chronik.api import auditing, authorization, sasl_authenticate, throttling
from chronik.api.call import AnswerSlot, Call, Peer
from chronik.api.context import HeldUp, RequestContext
from chronik.api.refusals import trace_refused_request
from chronik.api.table import API_VERSIONS, APIS, DIRECT, NODES_ONLY, OVERLAPS, module_of
from chronik.core.access.acls import parse_principal
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.sasl import NotReady
from chronik.core.errors import Code, Refused
from chronik.core.quotas.entities import QuotaKey
from chronik.node.net.node_identity import node_identity
from chronik.node.routing.asked import Relayed
from chronik.node.routing.forwarding import CONTROLLER_BOUND, Forwarding
from chronik.node.runtime.metered import Metered
from chronik.trace.metrics import Metrics
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.errors import Malformed
from chronik.wire.framing import RequestHeader, read_header
from chronik.wire.versions import EVERY_API, INSPECT, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE, client_behind

log = logging.getLogger(__name__)

# What a connection may ask before it has logged in.
BEFORE_LOGIN = frozenset((API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE))
_RAW = RequestHeader(SASL_AUTHENTICATE, 0, 0, "", 0)


class Dispatch:
    """Begins requests and sees that each gets its answer."""

    def __init__(
        self,
        context: RequestContext,
        metrics: Metrics,
        forwarding: Forwarding | None = None,
        *,
        serves_clients: bool = True,
        lets_clients_wait: bool = False,
        may_be: Callable[[int, KafkaPrincipal], bool] = lambda node_id, principal: True,
    ) -> None:
        self._may_be = may_be  # whether a node id is this principal's
        self._context = context
        self._metrics = metrics
        self._forwarding = forwarding
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order they began
        # Until this node knows what the cluster is like, it could tell clients nothing that is true. Of several nodes
        # another can be asked, so they are hung up on; a node that is alone is ready in a moment, so they wait.
        self.serves_clients = serves_clients
        self.lets_clients_wait = lets_clients_wait
        self._early: list[tuple[memoryview, Peer, AnswerSlot]] = []
        # Begins a request; True when the next one may begin before this one is answered. Raises Malformed.
        self.start: Callable[[memoryview, Peer, AnswerSlot], bool] = self._start

    def quotas_changed(self) -> None:
        """From now on the time of requests is measured, or not any more."""
        self.start = self._start_metered if self._context.quotas.limits.has(QuotaKey.REQUEST) else self._start

    def _start_metered(self, frame: memoryview, peer: Peer, answer: AnswerSlot) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return self._start(frame, peer, answer)
        finally:
            if peer.caller is not None:
                throttling.record_time(peer.caller, self._context, (loop.time() - began) * 1000)

    def _start(self, frame: memoryview, peer: Peer, answer: AnswerSlot) -> bool:
        login = peer.login
        if login is not None and login.is_raw:
            self.watch(self._log_in_raw(Call(frame, _RAW, peer, answer)))
            return False
        header = read_header(frame)
        api_key = header.api_key
        if login is not None and api_key not in BEFORE_LOGIN and not login.is_open:
            raise Malformed(f"request {api_key} of a connection that has not logged in, or not anew in time")
        api = APIS.get(api_key)
        if api is None or not api.lowest <= header.version <= api.highest:
            return self._start_unlisted(frame, header, peer, answer)
        if not (self.serves_clients or peer.is_node or api_key == API_VERSIONS or self._is_login_of_node(api_key)):
            if self.lets_clients_wait:
                self._early.append((frame, peer, answer))
                return False
            answer(None)
            return True
        self._metrics.requests[api_key] += 1
        call = Call(frame, header, peer, answer)
        if api_key in NODES_ONLY and (not peer.may_be_node or peer.is_forwarded):
            self._refuse_stranger(call)
            return False
        del frame  # the call has it, and may release it
        forwarding = self._forwarding
        try:
            module = module_of(api_key)
            if forwarding is not None and api_key in forwarding.taken:
                if self._forward(forwarding, module, call):
                    return False
            elif api_key in DIRECT:
                begun = module.start(call, self._context)
                if begun is not None and self._is_held_up(begun, answer):
                    return False
            else:
                request = decode_request(api_key, header.version, call.frame, header.body, module.REQUEST)
                if api_key != API_VERSIONS or self._is_identified(module, request, call):
                    self._handle(module, request, call)
        except Malformed:
            raise
        except Exception:
            self._fault(call)
            answer(None)  # parts of it may have been appended: only hanging up is true
        return api_key in OVERLAPS

    def _is_login_of_node(self, api_key: int) -> bool:
        """Or perhaps of a client, whose name is not known yet: see `NotReady`. A node that is alone knows no others."""
        return api_key in BEFORE_LOGIN and not self.lets_clients_wait

    async def _log_in_raw(self, call: Call) -> None:
        """A message of a mechanism without Kafka's headers: its answer has none either."""
        try:
            message = await sasl_authenticate.step(bytes(call.frame), call.caller, self._context)
        except Refused as refused:
            self._metrics.refused(SASL_AUTHENTICATE, refused.code)
            self._context.audit.login_refused(call.caller, str(refused.message))
            call.answer(None)
            return
        except NotReady:
            call.answer(None)
            return
        self._say_login(call)
        call.answer((len(message).to_bytes(4, "big") + message,))

    def _say_login(self, call: Call) -> None:
        """That it has logged in, if that was its last message."""
        login = call.peer.login
        if login is not None and login.principal is not None:
            self._context.audit.login(call.peer.caller_for(call.header), "SASL")

    def _is_identified(self, module: ModuleType, request: Any, call: Call) -> bool:
        """False: it says that it is a node which is another principal's, and that has been answered."""
        client_id, peer = call.header.client_id, call.peer
        node_id = node_identity(peer, request.client_software_name, client_id)
        if node_id is None:
            return True
        if node_id >= 0 and not self._may_be(node_id, peer.authenticated_as):
            reason = f"{peer.authenticated_as} may not be node {node_id}"
            log.warning("closing the connection of %s: %s", peer.host, reason)
            self._context.audit.login_refused(call.caller, reason)
            peer.is_refused = True
            self._answer_problem(module, request, call, Refused(Code.CLUSTER_AUTHORIZATION_FAILED, reason))
            return False
        behind = client_behind(client_id)
        client = None if behind is None else (parse_principal(behind[0]), behind[1])
        call.identify_as_node(node_id, client)
        return True

    def _refuse_stranger(self, call: Call) -> None:
        """A request between nodes, of a client whose certificate says that it is none."""
        header = call.header
        module = module_of(header.api_key)
        request = decode_request(header.api_key, header.version, call.frame, header.body, module.REQUEST)
        reason = f"{call.caller.principal} is not a node of this cluster"
        self._answer_problem(module, request, call, Refused(Code.CLUSTER_AUTHORIZATION_FAILED, reason))

    def serve_clients(self) -> None:
        """From now on; first those that came early."""
        self.serves_clients = True
        early, self._early = self._early, []
        for frame, peer, answer in early:
            try:
                self.start(frame, peer, answer)
            except Malformed as problem:
                log.warning("closing the connection of %s: %s", peer.host, problem)
                answer(None)

    def _start_unlisted(self, frame: memoryview, header: RequestHeader, peer: Peer, answer: AnswerSlot) -> bool:
        if header.api_key == INSPECT and header.version == 0:
            # It is answered at any time: while a node starts it is most worth having.
            self._metrics.requests[INSPECT] += 1
            module_of(INSPECT).start(Call(frame, header, peer, answer), self._context)
            return False
        if header.api_key != API_VERSIONS:
            raise Malformed(f"request {header.api_key} version {header.version} is not spoken here")
        self._metrics.refused(API_VERSIONS, Code.UNSUPPORTED_VERSION)
        response = module_of(API_VERSIONS).answer(Code.UNSUPPORTED_VERSION)
        answer((encode_response(API_VERSIONS, 0, header.correlation_id, response),))
        return True

    def _forward(self, forwarding: Forwarding, module: ModuleType, call: Call) -> bool:
        """Answer what may belong elsewhere. True when the next request has to wait for that."""
        header, is_node = call.header, call.caller.is_node
        if header.api_key in DIRECT:
            start = module.start if is_node or header.api_key == PRODUCE else forwarding.fetch
            begun = start(call, self._context)
            return begun is not None and self._is_held_up(begun, call.answer)
        request = decode_request(header.api_key, header.version, call.frame, header.body, module.REQUEST)
        if not is_node:
            try:
                name = EVERY_API[header.api_key].name
                authorization.check_whole(name, request, call.caller, self._context)
            except Refused as refused:
                self._answer_problem(module, request, call, refused)
                return False
            handling = forwarding.handle(module, request, call, self._context)
            self.watch(self._wait_for_response(module, request, call, handling))
        elif header.api_key in CONTROLLER_BOUND and not forwarding.is_controller:
            self._answer_problem(module, request, call, Refused(Code.NOT_CONTROLLER))
        else:
            self._handle(module, request, call)
        return False

    def _is_held_up(self, begun: Callable[[], None] | HeldUp, answer: AnswerSlot) -> bool:
        """Whether the next request has to wait for the answer to what has begun."""
        answer.on_abandoned = begun.on_abandoned if isinstance(begun, HeldUp) else begun
        return isinstance(begun, HeldUp)

    def _handle(self, module: ModuleType, request: Any, call: Call) -> None:
        try:
            name = EVERY_API[call.header.api_key].name
            response = auditing.handle(module, name, request, call.caller, self._context)
        except Exception as problem:
            self._answer_problem(module, request, call, problem)
            return
        if asyncio.iscoroutine(response):
            self.watch(self._wait_for_response(module, request, call, response))
        else:
            self._answer(module, request, call, response)

    async def _wait_for_response(
        self, module: ModuleType, request: Any, call: Call, handling: Coroutine[Any, Any, Any]
    ) -> None:
        try:
            response = await (handling if not self._is_metered(call) else self._metered(call, handling))
        except Exception as problem:
            self._answer_problem(module, request, call, problem)
            return
        if call.header.api_key == SASL_AUTHENTICATE:
            self._say_login(call)
        self._answer(module, request, call, response)

    def _is_metered(self, call: Call) -> bool:
        return self._context.quotas.limits.has(QuotaKey.REQUEST) and not call.caller.is_node

    def _metered(self, call: Call, handling: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        def spent(seconds: float) -> None:
            throttling.record_time(call.caller, self._context, seconds * 1000)

        return Metered(handling, asyncio.get_running_loop().time, spent)

    def _answer(self, module: ModuleType, request: Any, call: Call, response: Any) -> None:
        if isinstance(response, Relayed):
            throttling.mute(call, response.throttle_ms)
            call.answer(response.buffers)
            return
        if self._context.quotas.limits.is_in_use:
            response = throttling.throttled(call, self._context, response)
        header = call.header
        try:
            frame = encode_response(header.api_key, header.version, header.correlation_id, response)
        except Exception as problem:
            self._answer_problem(module, request, call, problem)
            return
        call.answer((frame,))

    def _answer_problem(self, module: ModuleType, request: Any, call: Call, problem: Exception) -> None:
        header, caller = call.header, call.caller
        if isinstance(problem, NotReady):
            call.answer(None)  # answered that its password is wrong, a client would not come again
            return
        code, message = Code.UNKNOWN_SERVER_ERROR, None
        if isinstance(problem, Refused):
            code, message = problem.code, problem.message
            self._metrics.refused(header.api_key, code)
            trace_refused_request(self._context, EVERY_API[header.api_key].name, caller, code, message, request)
        else:
            self._fault(call, problem)
        if caller.login is not None and header.api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            self._context.audit.login_refused(caller, str(message))
            call.peer.is_refused = True  # where there is no SASL, it is a request like others that are refused
        try:
            response = module.refuse(request, code, message)
            if self._context.quotas.limits.is_in_use:
                response = throttling.throttled(call, self._context, response)
            call.answer((encode_response(header.api_key, header.version, header.correlation_id, response),))
        except Exception as second:
            self._fault(call, second)
            call.answer(None)

    def _fault(self, call: Call, problem: Exception | None = None) -> None:
        self._metrics.faults += 1
        log.error(
            "fault in %s v%d of client %r at %s",
            EVERY_API[call.header.api_key].name,
            call.header.version,
            call.caller.client_id,
            call.caller.client_host,
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
