"""DeleteGroups (42), versions 0-3. Forget groups without members, and all they have committed. 3 adds a message."""

from __future__ import annotations

import datetime

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import DeleteGroup
from chronik.wire.kafka_4_4 import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

REQUEST = DeleteGroupsRequest
RESPONSE = DeleteGroupsResponse

_MESSAGES = {
    Code.NON_EMPTY_GROUP: "The group is not empty.",
    Code.GROUP_ID_NOT_FOUND: "The group id does not exist.",
}


async def handle(request: DeleteGroupsRequest, caller: Caller, context: RequestContext) -> DeleteGroupsResponse:
    results = tuple([await _delete(group_id, context) for group_id in dict.fromkeys(request.groups_names)])
    return DeleteGroupsResponse(throttle_time=datetime.timedelta(0), results=results)


async def _delete(group_id: str, context: RequestContext) -> DeletableGroupResult:
    try:
        await context.groups.ask(group_id, DeleteGroup(group_id))
    except Refused as refused:
        return DeletableGroupResult(
            group_id=group_id, error_code=refused.code, error_message=refused.message or _MESSAGES.get(refused.code)
        )
    return DeletableGroupResult(group_id=group_id, error_code=Code.NONE)


def refuse(request: DeleteGroupsRequest, code: Code, message: str | None) -> DeleteGroupsResponse:
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=code, error_message=message)
        for group_id in request.groups_names
    )
    return DeleteGroupsResponse(throttle_time=datetime.timedelta(0), results=results)
