"""JoinGroup (11), versions 0-9. A member joins a group by the classic protocol; the answer may take as long as the
others need. In a group of the consumer protocol (KIP-848) it comes at once, and no member leads.

Version 0 has no rebalance timeout of its own: it is the session timeout. Up to 3 a new member is let in at once, from 4
it is given an id first and joins again with it (KIP-394). From 5 it may be static (KIP-345). From 9 a static leader
that comes back can be answered that no assignment is needed (KIP-814).
"""

from __future__ import annotations

import datetime
import uuid

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember

from chronik.api.context import Caller, RequestContext
from chronik.api.durations import milliseconds
from chronik.api.topic_shapes import TopicShapes
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import Joined, MemberIdRequired
from chronik.core.machines.groups.commands import Join

REQUEST = JoinGroupRequest
RESPONSE = JoinGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9


async def handle(request: JoinGroupRequest, caller: Caller, context: RequestContext) -> JoinGroupResponse:
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID)
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    prefix = request.group_instance_id or caller.client_id
    command = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=f"/{caller.client_host}",  # as Kafka shows it
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        new_member_id=f"{prefix}-{uuid.UUID(bytes=context.chance.uuid())}",
        needs_known_member_id=caller.version >= MEMBER_ID_REQUIRED_FROM,
        may_skip_assignment=caller.version >= SKIP_ASSIGNMENT_FROM,
        topics=TopicShapes(context.metadata.image),
    )
    answer = await context.groups.ask(request.group_id, command)
    if isinstance(answer, MemberIdRequired):
        return _error(Code.MEMBER_ID_REQUIRED, answer.member_id)
    return _welcome(answer)


def _welcome(joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=datetime.timedelta(0),
        error_code=Code.NONE,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in joined.members
        ),
    )


def _error(code: Code, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name="",  # null is not known before version 7
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=(),
    )


def refuse(request: JoinGroupRequest, code: Code, message: str | None) -> JoinGroupResponse:
    # A member that has lost its place must not keep its id: Kafka gives it none back.
    keeps_id = code not in (Code.UNKNOWN_MEMBER_ID, Code.GROUP_MAX_SIZE_REACHED)
    return _error(code, request.member_id if keeps_id else "")
