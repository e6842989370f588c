"""ConsumerGroupDescribe (69), versions 0-1. KIP-848 groups: epochs, members, what they have and are to have.

From 1 it says which protocol a member speaks (KIP-1099).
"""

from __future__ import annotations

import datetime

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

from chronik.api import topic_ids
from chronik.api.authorization import operations_of
from chronik.api.context import Caller, RequestContext
from chronik.api.permissions import ALL_ON_GROUP, NOT_ASKED
from chronik.core.access.operations import AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import DescribedConsumer, DescribedConsumerMember, TopicIdPartitions
from chronik.core.machines.groups.commands import DescribeConsumerGroup
from chronik.core.machines.metadata.features import has_consumer_groups
from chronik.core.machines.metadata.image import MetadataImage

REQUEST = ConsumerGroupDescribeRequest
RESPONSE = ConsumerGroupDescribeResponse

CLASSIC_PROTOCOL, CONSUMER_PROTOCOL = 0, 1


async def handle(
    request: ConsumerGroupDescribeRequest, caller: Caller, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    if not has_consumer_groups(context.metadata.image):
        raise Refused(Code.UNSUPPORTED_VERSION, "The consumer group protocol is switched off (group.version).")

    def operations(group_id: str) -> int:
        if not request.include_authorized_operations:
            return NOT_ASKED
        return operations_of(context, caller, "consumer_group_describe", AclResourceType.GROUP, group_id, ALL_ON_GROUP)

    groups = tuple([await _describe(group_id, operations(group_id), context) for group_id in request.group_ids])
    return ConsumerGroupDescribeResponse(throttle_time=datetime.timedelta(0), groups=groups)


async def _describe(group_id: str, operations: int, context: RequestContext) -> DescribedGroup:
    try:
        if not group_id:
            raise Refused(Code.INVALID_GROUP_ID)
        described: DescribedConsumer = await context.groups.ask(group_id, DescribeConsumerGroup(group_id))
    except Refused as refused:
        return _error(group_id, refused.code, refused.message)
    return DescribedGroup(
        error_code=Code.NONE,
        error_message=None,
        group_id=group_id,
        group_state=described.state,
        group_epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        assignor_name=described.assignor,
        members=tuple(_member(member, context.metadata.image) for member in described.members),
        authorized_operations=operations,
    )


def _member(member: DescribedConsumerMember, image: MetadataImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topics,
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(member.assignment, image),
        target_assignment=_assignment(member.target, image),
        member_type=CLASSIC_PROTOCOL if member.is_classic else CONSUMER_PROTOCOL,
    )


def _assignment(topics: tuple[TopicIdPartitions, ...], image: MetadataImage) -> Assignment:
    """By id and name; a topic that is gone has no name, and cannot be read any more."""
    named = [(image.topic_by_id(topic_id), topic_id, partitions) for topic_id, partitions in topics]
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_ids.to_wire(topic_id), topic_name=topic.name, partitions=partitions)
            for topic, topic_id, partitions in named
            if topic is not None
        )
    )


def _error(group_id: str, code: Code, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=NOT_ASKED,
    )


def refuse(request: ConsumerGroupDescribeRequest, code: Code, message: str | None) -> ConsumerGroupDescribeResponse:
    groups = tuple(_error(group_id, code, message) for group_id in request.group_ids)
    return ConsumerGroupDescribeResponse(throttle_time=datetime.timedelta(0), groups=groups)
