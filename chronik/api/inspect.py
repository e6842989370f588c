"""Inspect (31000), version 0: what this node sees. Ours, not Kafka's, and not listed for clients (decision 0017).

The request is a JSON object behind its length (int32), `{"view": "state", ...}`; so is the answer, which has the key
`error` when there is none. Whatever comes here gets an answer: it says what was wrong with the question.

`"node": N` means another node: the look is passed on to it, so that any one node that can be reached is enough.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Awaitable, Sequence
from typing import Any

from chronik.api.authorization import gate_of
from chronik.api.call import Call
from chronik.api.context import RequestContext
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.ports import Outgoing
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import INSPECT

# For a program that may not look that is another answer than one that could not be given.
_FORBIDDEN = (Code.CLUSTER_AUTHORIZATION_FAILED,)
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">iii")  # size of the frame, correlation id, length of the JSON


def start(call: Call, context: RequestContext) -> None:
    try:
        gate = gate_of(context, call.caller, "inspect")
        if gate is not None:  # it tells of everything, records included
            gate.need(AclOperation.ALTER, AclResourceType.CLUSTER)
        arguments = _parse(call.frame[call.header.body :])
        node_id = arguments.pop("node", context.node_id)
        looking: Awaitable[bytes | memoryview]
        looking = _look(context, arguments) if node_id == context.node_id else _pass_on(node_id, call, context)
    except Refused as refusal:
        _refuse(call, context, refusal)
        return
    context.start(_wait_for_answer(looking, call, context))


async def _wait_for_answer(looking: Awaitable[bytes | memoryview], call: Call, context: RequestContext) -> None:
    try:
        call.answer(_framed(call.header, await looking))
    except Refused as refusal:
        _refuse(call, context, refusal)
    except Exception:
        call.answer(_framed(call.header, _error("the node failed to answer: its log says how")))
        raise  # the task's owner logs and counts it


def _refuse(call: Call, context: RequestContext, refusal: Refused) -> None:
    context.metrics.refused(INSPECT, refusal.code)
    call.answer(
        _framed(call.header, _error(refusal.message or refusal.code.name, is_forbidden=refusal.code in _FORBIDDEN))
    )


def _parse(body: memoryview) -> dict[str, Any]:
    """Raises Refused."""
    try:
        (length,) = _LENGTH.unpack_from(body)
        if length != len(body) - _LENGTH.size:
            raise Refused(Code.INVALID_REQUEST, f"{length} bytes of JSON are promised, there are {len(body) - 4}")
        arguments = json.loads(bytes(body[_LENGTH.size :]))
    except (struct.error, ValueError, RecursionError) as problem:
        raise Refused(Code.INVALID_REQUEST, f"this is no JSON: {problem}") from problem
    if not isinstance(arguments, dict):
        raise Refused(Code.INVALID_REQUEST, "a JSON object is wanted")
    return arguments


def _look(context: RequestContext, arguments: dict[str, Any]) -> Awaitable[bytes]:
    """Raises Refused."""
    view = arguments.pop("view", None)
    if context.look is None:
        raise Refused(Code.INVALID_REQUEST, "this node cannot be looked at")
    if not isinstance(view, str):
        raise Refused(Code.INVALID_REQUEST, 'say which view: {"view": "state"}')
    return context.look(view, arguments)


def _pass_on(node_id: Any, call: Call, context: RequestContext) -> Awaitable[memoryview]:
    """What another node answers. Raises Refused."""
    if not isinstance(node_id, int) or isinstance(node_id, bool):
        raise Refused(Code.INVALID_REQUEST, f"{node_id!r} is no number of a node")
    if call.caller.is_node or context.forwarding is None:
        raise Refused(Code.BROKER_NOT_AVAILABLE, f"this is node {context.node_id}, not {node_id}")
    return _answer_of(context.forwarding.ask_node(node_id, call))


async def _answer_of(asking: Awaitable[memoryview]) -> memoryview:
    return (await asking)[2 * _LENGTH.size :]  # behind the correlation id and the length, which are written anew


def _error(message: str, *, is_forbidden: bool = False) -> bytes:
    return json.dumps({"error": message} | ({"is_forbidden": True} if is_forbidden else {})).encode()


def _framed(header: RequestHeader, payload: bytes | memoryview) -> Sequence[Outgoing]:
    head = _HEAD.pack(_HEAD.size - _LENGTH.size + len(payload), header.correlation_id, len(payload))
    return head, payload
