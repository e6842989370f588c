"""LeaveGroup (13), versions 0-5. Members leave a classic group.

Up to 2 one member leaves and its error is the answer's; from 3 several may, each with its own. From 3 an administrator
can name a static member by its instance id alone.
"""

from __future__ import annotations

import datetime

from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import Leave, Leaver
from chronik.wire.unions.leave_group import AnyLeaveGroupRequest, AnyLeavingMember

REQUEST = AnyLeaveGroupRequest
RESPONSE = LeaveGroupResponse

MANY_MEMBERS_FROM = 3


async def handle(request: AnyLeaveGroupRequest, caller: Caller, context: RequestContext) -> LeaveGroupResponse:
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID)
    members = (
        request.members if caller.version >= MANY_MEMBERS_FROM else (AnyLeavingMember(member_id=request.member_id),)
    )
    leavers = tuple(Leaver(member.member_id, member.group_instance_id) for member in members)
    try:
        codes = (await context.groups.ask(request.group_id, Leave(request.group_id, leavers))).codes
    except Refused as refused:
        # No such group: as far as its members are concerned, there are no such members.
        if refused.code is not Code.UNKNOWN_MEMBER_ID:
            raise
        codes = (Code.UNKNOWN_MEMBER_ID,) * len(members)
    if caller.version < MANY_MEMBERS_FROM:
        return LeaveGroupResponse(throttle_time=datetime.timedelta(0), error_code=codes[0], members=())
    return LeaveGroupResponse(
        throttle_time=datetime.timedelta(0),
        error_code=Code.NONE,
        members=tuple(_member(member, code) for member, code in zip(members, codes, strict=True)),
    )


def _member(member: AnyLeavingMember, code: Code) -> MemberResponse:
    return MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)


def refuse(request: AnyLeaveGroupRequest, code: Code, message: str | None) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        members=tuple(_member(member, code) for member in request.members),
    )
