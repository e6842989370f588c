"""ListOffsets (2), versions 1-11. Where a partition begins, ends, or was at a certain time.

Special times: -1 latest, -2 earliest, -3 the largest timestamp (from 7), -4 earliest on this disk (from 8), -5 latest
in tiered storage (from 9), -6 earliest not yet there (from 11): without tiers, -4 is -2 and the last two are unknown.

A consumer's latest is what it may read: the high watermark, or the last stable offset with read_committed. A leader
just elected may not know yet how far that had come, and says OFFSET_NOT_AVAILABLE rather than less than was said
before.
"""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any, NamedTuple

from kio.schema.list_offsets.v11.request import ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from chronik.api.desk import Caller, Desk
from chronik.api.refusals import trace_refusal
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.replica.replica import Replica
from chronik.core.types import NO_EPOCH, NO_TIMESTAMP, UNKNOWN_OFFSET

REQUEST = ListOffsetsRequest
RESPONSE = ListOffsetsResponse

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

CONSUMER = -1
# Versions below 5 do not know OFFSET_NOT_AVAILABLE: they are told to look for the leader again.
OFFSET_NOT_AVAILABLE_FROM = 5


class Found(NamedTuple):
    """An offset, and the time and leader epoch of the record there where they are known."""

    offset: int = UNKNOWN_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


def handle(request: Any, caller: Caller, desk: Desk) -> Any:
    times_named = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                _partition(topic.name, part, times_named[topic.name, part.partition_index], request, caller, desk)
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return ListOffsetsResponse(throttle_time=datetime.timedelta(0), topics=topics)


def _partition(topic: str, wanted: Any, times_named: int, request: Any, caller: Caller, desk: Desk) -> Any:
    try:
        if times_named > 1:
            raise Refused(Code.INVALID_REQUEST)
        if wanted.timestamp < 0 and caller.version < FIRST_VERSION.get(wanted.timestamp, caller.version + 1):
            raise Refused(Code.UNSUPPORTED_VERSION)
        replica = desk.replicas.leader(topic, wanted.partition_index)
        replica.check_epoch(wanted.current_leader_epoch)
        try:
            found = _find(replica, wanted.timestamp, request)
        except (Corrupt, OSError) as problem:
            raise Refused(desk.replicas.read_failed(replica, problem)) from problem
    except Refused as refused:
        code = refused.code
        if code is Code.OFFSET_NOT_AVAILABLE and caller.version < OFFSET_NOT_AVAILABLE_FROM:
            code = Code.LEADER_NOT_AVAILABLE
        trace_refusal(desk, "list_offsets", caller, code, refused.message, topic, wanted.partition_index)
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=Code.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(replica: Replica, timestamp: int, request: Any) -> Found:
    log = replica.log
    is_consumer = request.replica_id == CONSUMER
    bound = replica.readable_bound(request.isolation_level) if is_consumer else log.end_offset
    is_known = replica.is_watermark_known or not is_consumer
    if timestamp == LATEST and not is_known:
        raise Refused(Code.OFFSET_NOT_AVAILABLE)
    if timestamp == LATEST:
        return Found(bound, leader_epoch=replica.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(log.start_offset, leader_epoch=log.epochs.at(log.start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Found()
    stamped = (
        log.offset_of_max_timestamp(bound) if timestamp == MAX_TIMESTAMP else log.offset_for_time(timestamp, bound)
    )
    if stamped is None and not is_known:
        raise Refused(Code.OFFSET_NOT_AVAILABLE)  # there may be one between here and where it had come
    if stamped is None:
        return Found()
    return Found(stamped.offset, stamped.timestamp, log.epochs.at(stamped.offset))


def refuse(request: Any, code: Code, message: str | None) -> Any:
    topics = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=code)
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return ListOffsetsResponse(throttle_time=datetime.timedelta(0), topics=topics)
