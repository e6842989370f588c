"""DeleteGroups (42), versions 0-2. Forget groups that nobody is in, and all they have committed."""

from __future__ import annotations

import datetime

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import DeleteGroup

REQUEST = DeleteGroupsRequest
RESPONSE = DeleteGroupsResponse


async def handle(request: DeleteGroupsRequest, caller: Caller, context: RequestContext) -> DeleteGroupsResponse:
    results = tuple([await _delete(group_id, context) for group_id in dict.fromkeys(request.groups_names)])
    return DeleteGroupsResponse(throttle_time=datetime.timedelta(0), results=results)


async def _delete(group_id: str, context: RequestContext) -> DeletableGroupResult:
    try:
        await context.groups.ask(group_id, DeleteGroup(group_id))
    except Refused as refused:
        return DeletableGroupResult(group_id=group_id, error_code=refused.code)
    return DeletableGroupResult(group_id=group_id, error_code=Code.NONE)


def refuse(request: DeleteGroupsRequest, code: Code, message: str | None) -> DeleteGroupsResponse:
    results = tuple(DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names)
    return DeleteGroupsResponse(throttle_time=datetime.timedelta(0), results=results)
