"""SyncGroup (14), versions 0-5. A member asks for its assignment; the leader brings those of all.

From 3 the caller may be static. From 5 it says which protocol it means, and both sides check.
"""

from __future__ import annotations

import datetime

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import Sync

REQUEST = SyncGroupRequest
RESPONSE = SyncGroupResponse


async def handle(request: SyncGroupRequest, caller: Caller, context: RequestContext) -> SyncGroupResponse:
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID)
    command = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((one.member_id, bytes(one.assignment)) for one in request.assignments),
    )
    synced = await context.groups.ask(request.group_id, command)
    return SyncGroupResponse(
        throttle_time=datetime.timedelta(0),
        error_code=Code.NONE,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def refuse(request: SyncGroupRequest, code: Code, message: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=datetime.timedelta(0), error_code=code, protocol_type=None, protocol_name=None, assignment=b""
    )
