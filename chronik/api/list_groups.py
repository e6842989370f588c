"""ListGroups (16), versions 0-5. The groups this node coordinates, of both kinds.

From 4 they can be picked by state, from 5 by type (`classic`, `consumer`); case does not matter.
"""

from __future__ import annotations

import datetime

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused

REQUEST = ListGroupsRequest
RESPONSE = ListGroupsResponse


async def handle(request: ListGroupsRequest, caller: Caller, context: RequestContext) -> ListGroupsResponse:
    if context.groups.is_loading:  # a list that lacks some looks as if they were gone
        raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
    groups = tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.type,
        )
        for machine in context.groups.machines()
        for group in machine.list_groups(tuple(request.states_filter), tuple(request.types_filter))
    )
    return ListGroupsResponse(throttle_time=datetime.timedelta(0), error_code=Code.NONE, groups=groups)


def refuse(request: ListGroupsRequest, code: Code, message: str | None) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time=datetime.timedelta(0), error_code=code, groups=())
