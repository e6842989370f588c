"""ConsumerGroupHeartbeat (68), versions 0-1. The one request of a KIP-848 member: join, stay, leave.

In version 0 the coordinator makes the member's id, from 1 the client does (KIP-1082). From 1 a member may subscribe by
regular expression as well.
"""

from __future__ import annotations

import base64
import datetime

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from chronik.api import topic_ids
from chronik.api.context import Caller, RequestContext
from chronik.api.durations import duration, milliseconds
from chronik.api.topic_shapes import TopicShapes
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import ConsumerBeatSeen, TopicIdPartitions
from chronik.core.machines.groups.commands import ConsumerBeat
from chronik.core.machines.metadata.features import has_consumer_groups

REQUEST = ConsumerGroupHeartbeatRequest
RESPONSE = ConsumerGroupHeartbeatResponse

CLIENT_MAKES_ID_FROM = 1


async def handle(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    if not has_consumer_groups(context.metadata.image):
        raise Refused(Code.UNSUPPORTED_VERSION, "The consumer group protocol is switched off (group.version).")
    if not request.group_id:
        raise Refused(Code.INVALID_REQUEST, "GroupId can't be empty.")
    member_id = request.member_id
    if not member_id and request.member_epoch == 0 and caller.version < CLIENT_MAKES_ID_FROM:
        member_id = base64.urlsafe_b64encode(context.chance.uuid()).decode().rstrip("=")
    names = request.subscribed_topic_names
    command = ConsumerBeat(
        group_id=request.group_id,
        member_id=member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topics=None if names is None else tuple(names),
        subscribed_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=_owned(request),
        client_id=caller.client_id,
        client_host=f"/{caller.client_host}",
        topics=TopicShapes(context.metadata.image),
    )
    seen: ConsumerBeatSeen = await context.groups.ask(request.group_id, command)
    return ConsumerGroupHeartbeatResponse(
        throttle_time=datetime.timedelta(0),
        error_code=Code.NONE,
        error_message=None,
        member_id=seen.member_id,
        member_epoch=seen.member_epoch,
        heartbeat_interval=duration(seen.heartbeat_interval_ms),
        assignment=None if seen.assignment is None else Assignment(topic_partitions=_partitions(seen.assignment)),
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> tuple[TopicIdPartitions, ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple(
        TopicIdPartitions(topic_ids.from_wire(topic.topic_id) or bytes(16), tuple(topic.partitions))
        for topic in request.topic_partitions
    )


def _partitions(assignment: tuple[TopicIdPartitions, ...]) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id=topic_ids.to_wire(topic.topic_id), partitions=topic.partitions) for topic in assignment
    )


def refuse(request: ConsumerGroupHeartbeatRequest, code: Code, message: str | None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        error_message=message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=datetime.timedelta(0),
        assignment=None,
    )
