"""FindCoordinator (10), versions 0-6. Which node holds a group or a transactional id: the metadata says.

Up to 3 there is one key, from 4 many. Key type 0 is a group, 1 a transactional id. Type 2 (share groups, from 6) is
not supported: INVALID_REQUEST.
"""

from __future__ import annotations

from chronik.api.authorization import gate_of
from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import transactions
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.wire.unions.find_coordinator import AnyCoordinator, AnyFindCoordinatorRequest, AnyFindCoordinatorResponse

REQUEST = AnyFindCoordinatorRequest
RESPONSE = AnyFindCoordinatorResponse

GROUP, TRANSACTION = 0, 1
MANY_KEYS_FROM = 4


async def handle(
    request: AnyFindCoordinatorRequest, caller: Caller, context: RequestContext
) -> AnyFindCoordinatorResponse:
    if caller.version < MANY_KEYS_FROM:
        return _response((await _find(request.key, request.key_type, caller, context),))
    return _response(tuple([await _find(key, request.key_type, caller, context) for key in request.coordinator_keys]))


async def _find(key: str, key_type: int, caller: Caller, context: RequestContext) -> AnyCoordinator:
    try:
        if key_type not in (GROUP, TRANSACTION):
            raise Refused(Code.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
        gate = gate_of(context, caller, "find_coordinator")
        if gate is not None:
            kind = AclResourceType.GROUP if key_type == GROUP else AclResourceType.TRANSACTIONAL_ID
            gate.need(AclOperation.DESCRIBE, kind, key)
        desk = context.groups if key_type == GROUP else transactions(context)
        node_id, host, port = await desk.coordinator(key)
        broker = context.metadata.image.brokers.get(node_id)
        reached = (host, port) if broker is None else broker.reached_by(caller.listener)
        if reached is None:  # it has no listener of the name by which the client came
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
    except Refused as refused:
        return AnyCoordinator(key=key, error_code=refused.code, error_message=refused.message)
    return AnyCoordinator(key=key, node_id=node_id, host=reached[0], port=reached[1])


def _response(found: tuple[AnyCoordinator, ...]) -> AnyFindCoordinatorResponse:
    """In the shape of all versions: those before 4 take the first."""
    first = found[0] if found else AnyCoordinator()
    return AnyFindCoordinatorResponse(
        coordinators=found,
        error_code=first.error_code,
        error_message=first.error_message,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
    )


def refuse(request: AnyFindCoordinatorRequest, code: Code, message: str | None) -> AnyFindCoordinatorResponse:
    keys = request.coordinator_keys or (request.key,)
    return _response(tuple(AnyCoordinator(key=key, error_code=code, error_message=message) for key in keys))
