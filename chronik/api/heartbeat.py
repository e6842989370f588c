"""Heartbeat (12), versions 0-4. A member of a classic group is alive. From 3 the caller may be static."""

from __future__ import annotations

import datetime

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import Beat

REQUEST = HeartbeatRequest
RESPONSE = HeartbeatResponse


async def handle(request: HeartbeatRequest, caller: Caller, context: RequestContext) -> HeartbeatResponse:
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID)
    command = Beat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    try:
        await context.groups.ask(request.group_id, command)
    except Refused as refused:
        # While the group is being read back no member loses its place, and none needs to know, as in Kafka.
        if refused.code is not Code.COORDINATOR_LOAD_IN_PROGRESS:
            raise
    return HeartbeatResponse(throttle_time=datetime.timedelta(0), error_code=Code.NONE)


def refuse(request: HeartbeatRequest, code: Code, message: str | None) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time=datetime.timedelta(0), error_code=code)
