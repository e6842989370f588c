"""ListOffsets (2), versions 1-11. Where a partition begins, ends, or was at a certain time.

Special times: -1 latest, -2 earliest, -3 the largest timestamp (from 7), -4 earliest on this disk (from 8), -5 latest
in tiered storage (from 9), -6 earliest not yet there (from 11): without tiers, -4 is -2 and the last two are unknown.

A consumer's latest is what it may read: the high watermark, or the last stable offset with read_committed. A leader
just elected may not know yet how far that had come, and says OFFSET_NOT_AVAILABLE rather than less than was said
before.

Who asks by time may have a batch looked through that a hostile producer has made as long as it can be: that is done in
steps, between which others are served.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from kio.schema.list_offsets.v11.request import ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from chronik.api.context import Caller, RequestContext
from chronik.api.refusals import trace_refusal
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.records.steps import Unfinished, begin
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
# Versions below 5 do not know OFFSET_NOT_AVAILABLE: their error code makes them look for the leader again.
OFFSET_NOT_AVAILABLE_FROM = 5


class FoundOffset(NamedTuple):
    """An offset, and the time and leader epoch of the record there where they are known."""

    offset: int = UNKNOWN_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    asked = _Asked(request, caller, context)
    wanted = [(topic.name, part) for topic in request.topics for part in topic.partitions]
    if any(_is_sought(part.timestamp) for _, part in wanted):
        return _wait_for_all(asked, wanted)
    return asked.response([asked.answer(name, part, asked.known) for name, part in wanted])


async def _wait_for_all(asked: _Asked, wanted: list[tuple[str, Any]]) -> Any:
    answers = []
    for name, part in wanted:
        if _is_sought(part.timestamp):
            answers.append(await asked.wait_for_answer(name, part))
            await asyncio.sleep(0)  # a request may name thousands of partitions
        else:
            answers.append(asked.answer(name, part, asked.known))
    return asked.response(answers)


def _is_sought(timestamp: int) -> bool:
    """Whether records have to be looked through for it."""
    return bool(timestamp >= 0 or timestamp == MAX_TIMESTAMP)


class _Asked:
    """A request and where it is answered."""

    def __init__(self, request: Any, caller: Caller, context: RequestContext) -> None:
        self._request = request
        self._caller = caller
        self._context = context
        self._is_consumer = request.replica_id == CONSUMER
        self._times_named = Counter((t.name, part.partition_index) for t in request.topics for part in t.partitions)

    def answer(self, topic: str, wanted: Any, find: Callable[[Replica, int], FoundOffset]) -> Any:
        try:
            return self._found(wanted, find(self._leader(topic, wanted), wanted.timestamp))
        except Refused as refused:
            return self._refused(topic, wanted, refused)

    async def wait_for_answer(self, topic: str, wanted: Any) -> Any:
        try:
            replica = self._leader(topic, wanted)
            found = await self._wait_for_sought(replica, wanted.timestamp)
            if self._leader(topic, wanted) is not replica:
                raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
            return self._found(wanted, found)
        except Refused as refused:
            return self._refused(topic, wanted, refused)

    def _leader(self, topic: str, wanted: Any) -> Replica:
        version = self._caller.version
        if self._times_named[topic, wanted.partition_index] > 1:
            raise Refused(Code.INVALID_REQUEST)
        if wanted.timestamp < 0 and version < FIRST_VERSION.get(wanted.timestamp, version + 1):
            raise Refused(Code.UNSUPPORTED_VERSION)
        replica = self._context.replicas.leader(topic, wanted.partition_index)
        replica.check_epoch(wanted.current_leader_epoch)
        return replica

    def _bound(self, replica: Replica) -> int:
        if self._is_consumer:
            return replica.readable_bound(self._request.isolation_level)
        return replica.log.end_offset

    def known(self, replica: Replica, timestamp: int) -> FoundOffset:
        """What is known without looking at any record."""
        log = replica.log
        if timestamp == LATEST:
            self._check_watermark(replica)
            return FoundOffset(self._bound(replica), leader_epoch=replica.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(log.start_offset, leader_epoch=log.epochs.at(log.start_offset))
        return FoundOffset()

    def _check_watermark(self, replica: Replica) -> None:
        if self._is_consumer and not replica.is_watermark_known:
            raise Refused(Code.OFFSET_NOT_AVAILABLE)

    async def _wait_for_sought(self, replica: Replica, timestamp: int) -> FoundOffset:
        log, bound = replica.log, self._bound(replica)
        is_newest = timestamp == MAX_TIMESTAMP
        try:
            begun = begin(log.offset_of_max_timestamp(bound) if is_newest else log.offset_for_time(timestamp, bound))
            if isinstance(begun, Unfinished):
                stamped = await self._context.replicas.long_work.wait_for_rest(begun)
            else:
                stamped = begun.value
        except (Corrupt, OSError) as problem:
            raise Refused(self._context.replicas.read_failed(replica, problem)) from problem
        if stamped is None:
            self._check_watermark(replica)  # there may be one between here and where it had come
            return FoundOffset()
        return FoundOffset(stamped.offset, stamped.timestamp, log.epochs.at(stamped.offset))

    def _found(self, wanted: Any, found: FoundOffset) -> Any:
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            error_code=Code.NONE,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch,
        )

    def _refused(self, topic: str, wanted: Any, refused: Refused) -> Any:
        code, caller = refused.code, self._caller
        if code is Code.OFFSET_NOT_AVAILABLE and caller.version < OFFSET_NOT_AVAILABLE_FROM:
            code = Code.LEADER_NOT_AVAILABLE
        trace_refusal(self._context, "list_offsets", caller, code, refused.message, topic, wanted.partition_index)
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)

    def response(self, answers: list[Any]) -> Any:
        """The answers are in the order of the request."""
        rest = iter(answers)
        topics = tuple(
            ListOffsetsTopicResponse(name=topic.name, partitions=tuple(islice(rest, len(topic.partitions))))
            for topic in self._request.topics
        )
        return ListOffsetsResponse(throttle_time=datetime.timedelta(0), topics=topics)


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
