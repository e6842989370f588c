"""OffsetDelete (47), version 0. Forget what a group has committed, where it no longer subscribes."""

from __future__ import annotations

import datetime

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from chronik.api.desk import Caller, Desk
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import DeleteOffsets

REQUEST = OffsetDeleteRequest
RESPONSE = OffsetDeleteResponse


async def handle(request: OffsetDeleteRequest, caller: Caller, desk: Desk) -> OffsetDeleteResponse:
    # Looked up once: while the coordinator is asked, topics come and go.
    is_known = [desk.metadata.image.topic(topic.name) is not None for topic in request.topics]
    asked = tuple(
        (topic.name, partition.partition_index)
        for topic, known in zip(request.topics, is_known, strict=True)
        if known
        for partition in topic.partitions
    )
    codes = list((await desk.groups.ask(request.group_id, DeleteOffsets(request.group_id, asked))).codes)
    topics = []
    for topic, known in zip(request.topics, is_known, strict=True):
        count = len(topic.partitions)
        if not known:
            own = [Code.UNKNOWN_TOPIC_OR_PARTITION] * count
        else:
            own, codes = codes[:count], codes[count:]
        topics.append(_topic(topic, own))
    return OffsetDeleteResponse(error_code=Code.NONE, throttle_time=datetime.timedelta(0), topics=tuple(topics))


def _topic(topic: OffsetDeleteRequestTopic, codes: list[Code]) -> OffsetDeleteResponseTopic:
    partitions = tuple(
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
        for partition, code in zip(topic.partitions, codes, strict=True)
    )
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def refuse(request: OffsetDeleteRequest, code: Code, message: str | None) -> OffsetDeleteResponse:
    topics = tuple(_topic(topic, [code] * len(topic.partitions)) for topic in request.topics)
    return OffsetDeleteResponse(error_code=code, throttle_time=datetime.timedelta(0), topics=topics)
