"""DescribeGroups (15), versions 0-6. State, protocol and members of classic groups.

A group that does not exist is 'Dead' without an error up to version 5, GROUP_ID_NOT_FOUND from version 6 (KIP-1043).
What the client may do is given where there is no error.
"""

from __future__ import annotations

import datetime

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse

from chronik.api.authorization import operations_of
from chronik.api.context import Caller, RequestContext
from chronik.api.permissions import ALL_ON_GROUP, NOT_ASKED
from chronik.core.access.operations import AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import DescribedClassic
from chronik.core.machines.groups.commands import DescribeGroup

REQUEST = DescribeGroupsRequest
RESPONSE = DescribeGroupsResponse

NOT_FOUND_FROM = 6
DEAD = "Dead"


async def handle(request: DescribeGroupsRequest, caller: Caller, context: RequestContext) -> DescribeGroupsResponse:
    def operations(group_id: str) -> int:
        if not request.include_authorized_operations:
            return NOT_ASKED
        return operations_of(context, caller, "describe_groups", AclResourceType.GROUP, group_id, ALL_ON_GROUP)

    groups = tuple([await _describe(group_id, operations(group_id), caller, context) for group_id in request.groups])
    return DescribeGroupsResponse(throttle_time=datetime.timedelta(0), groups=groups)


async def _describe(group_id: str, operations: int, caller: Caller, context: RequestContext) -> DescribedGroup:
    try:
        described: DescribedClassic = await context.groups.ask(group_id, DescribeGroup(group_id))
    except Refused as refused:
        if refused.code is not Code.GROUP_ID_NOT_FOUND:
            return _error(group_id, refused.code, refused.message)
        if caller.version < NOT_FOUND_FROM:
            return _error(group_id, Code.NONE, None, DEAD, operations)
        return _error(group_id, refused.code, refused.message, DEAD)
    members = tuple(
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in described.members
    )
    return DescribedGroup(
        error_code=Code.NONE,
        error_message=None,
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol,
        members=members,
        authorized_operations=operations,
    )


def _error(
    group_id: str, code: Code, message: str | None, state: str = "", operations: int = NOT_ASKED
) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=operations,
    )


def refuse(request: DescribeGroupsRequest, code: Code, message: str | None) -> DescribeGroupsResponse:
    groups = tuple(_error(group_id, code, message) for group_id in request.groups)
    return DescribeGroupsResponse(throttle_time=datetime.timedelta(0), groups=groups)
