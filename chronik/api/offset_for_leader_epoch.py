"""OffsetForLeaderEpoch (23), versions 2-4. Where a leader epoch ends: how a client or a follower finds out that its log
or its position belongs to a history that did not happen (KIP-101, KIP-320)."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused

REQUEST = OffsetForLeaderEpochRequest
RESPONSE = OffsetForLeaderEpochResponse


def handle(
    request: OffsetForLeaderEpochRequest, caller: Caller, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=tuple(_partition(topic.topic, part, context) for part in topic.partitions)
        )
        for topic in request.topics
    )
    return OffsetForLeaderEpochResponse(throttle_time=datetime.timedelta(0), topics=topics)


def _partition(topic: str, wanted: Any, context: RequestContext) -> Any:
    try:
        replica = context.replicas.leader(topic, wanted.partition)
        replica.check_epoch(wanted.current_leader_epoch)
    except Refused as refused:
        return EpochEndOffset(error_code=refused.code, partition=wanted.partition)
    log = replica.log
    epoch, end_offset = log.epochs.end_offset_for(wanted.leader_epoch, log.end_offset)
    return EpochEndOffset(error_code=Code.NONE, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


def refuse(request: OffsetForLeaderEpochRequest, code: Code, message: str | None) -> OffsetForLeaderEpochResponse:
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(EpochEndOffset(error_code=code, partition=part.partition) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return OffsetForLeaderEpochResponse(throttle_time=datetime.timedelta(0), topics=topics)
