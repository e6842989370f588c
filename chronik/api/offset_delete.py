"""OffsetDelete (47), version 0. Forget what a group has committed, where it no longer subscribes."""

from __future__ import annotations

import datetime

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import DeleteOffsets
from chronik.core.machines.metadata.image import MetadataImage

REQUEST = OffsetDeleteRequest
RESPONSE = OffsetDeleteResponse


async def handle(request: OffsetDeleteRequest, caller: Caller, context: RequestContext) -> OffsetDeleteResponse:
    # Looked up once: while the coordinator is asked, topics come, go and grow.
    known = [_known(topic.name, context.metadata.image) for topic in request.topics]
    asked = tuple(
        (topic.name, partition.partition_index)
        for topic, exists in zip(request.topics, known, strict=True)
        for partition in topic.partitions
        if partition.partition_index in exists
    )
    codes = iter((await context.groups.ask(request.group_id, DeleteOffsets(request.group_id, asked))).codes)
    topics = []
    for topic, exists in zip(request.topics, known, strict=True):
        asked_for = (partition.partition_index for partition in topic.partitions)
        own = [next(codes) if number in exists else Code.UNKNOWN_TOPIC_OR_PARTITION for number in asked_for]
        topics.append(_topic(topic, own))
    return OffsetDeleteResponse(error_code=Code.NONE, throttle_time=datetime.timedelta(0), topics=tuple(topics))


def _known(name: str, image: MetadataImage) -> range:
    """The partitions that a topic has: none when there is no such topic."""
    topic = image.topic(name)
    return range(0 if topic is None else len(topic.partitions))


def _topic(topic: OffsetDeleteRequestTopic, codes: list[Code]) -> OffsetDeleteResponseTopic:
    partitions = tuple(
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
        for partition, code in zip(topic.partitions, codes, strict=True)
    )
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def refuse(request: OffsetDeleteRequest, code: Code, message: str | None) -> OffsetDeleteResponse:
    topics = tuple(_topic(topic, [code] * len(topic.partitions)) for topic in request.topics)
    return OffsetDeleteResponse(error_code=code, throttle_time=datetime.timedelta(0), topics=topics)
