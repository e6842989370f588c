"""DeleteRecords (21), versions 0-2. Moves the start of a partition's log up; -1 means up to the high watermark.

The answer waits until that is on disk, and until the logs of all replicas in sync begin there too: what was said to be
gone does not come back after a crash, or with another leader. When that takes longer than the client wants to wait it
is REQUEST_TIMED_OUT, as in Kafka: gone here, and soon elsewhere.
Refused for internal topics, and for topics that are only compacted: there the records' keys say what goes.
"""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import is_internal
from chronik.core.replica.replica import Replica

REQUEST = DeleteRecordsRequest
RESPONSE = DeleteRecordsResponse

NO_LOW_WATERMARK = -1


class _Gone:
    """Watches a partition until no in-sync replica has anything below an offset any more."""

    def __init__(self, replica: Replica, offset: int) -> None:
        self.replica = replica
        self.offset = offset
        self.outcome: asyncio.Future[Code] = asyncio.get_running_loop().create_future()

    def changed(self, replica: Replica) -> None:
        if not replica.is_leader:
            self.end(Code.NOT_LEADER_OR_FOLLOWER)
        elif replica.offline is not None:
            self.end(Code.KAFKA_STORAGE_ERROR)
        elif replica.low_watermark >= self.offset:
            self.end(Code.NONE)

    def end(self, code: Code) -> None:
        if not self.outcome.done():
            self.outcome.set_result(code)


async def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    asked = [[_partition(topic.name, part, context) for part in topic.partitions] for topic in request.topics]
    gone = [one for parts in asked for one in parts if isinstance(one, _Gone)]
    if gone:
        await context.replicas.store_starts()
        await _wait_for(gone, request.timeout, context)
    topics = tuple(
        DeleteRecordsTopicResult(name=topic.name, partitions=tuple(map(_result, topic.partitions, parts)))
        for topic, parts in zip(request.topics, asked, strict=True)
    )
    return DeleteRecordsResponse(throttle_time=datetime.timedelta(0), topics=topics)


async def _wait_for(gone: list[_Gone], timeout: datetime.timedelta, context: RequestContext) -> None:
    for one in gone:
        one.changed(one.replica)
    waiting = [one for one in gone if not one.outcome.done()]
    if not waiting:
        return

    def give_up() -> None:
        for one in waiting:
            one.end(Code.REQUEST_TIMED_OUT)

    for one in waiting:
        context.waiting.watch(one.replica, one)
    deadline = context.waiting.after_ms(max(0, timeout // datetime.timedelta(milliseconds=1)), give_up)
    try:
        await asyncio.gather(*(one.outcome for one in waiting))
    finally:
        context.waiting.cancel(deadline)
        for one in waiting:
            context.waiting.unwatch(one.replica, one)


def _partition(topic: str, wanted: Any, context: RequestContext) -> _Gone | Code:
    try:
        if is_internal(topic):
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}")
        replica = context.replicas.leader(topic, wanted.partition_index)
        if replica.config.is_compacted and "delete" not in replica.config.cleanup_policy:
            raise Refused(Code.POLICY_VIOLATION, f"Records of {topic} are compacted, not deleted")
        return _Gone(replica, context.replicas.delete_records(replica, wanted.offset))
    except Refused as refused:
        return refused.code


def _result(wanted: Any, outcome: _Gone | Code) -> Any:
    if not isinstance(outcome, _Gone):
        return _refused(wanted.partition_index, outcome)
    code = outcome.outcome.result()
    if code in (Code.NONE, Code.REQUEST_TIMED_OUT):
        low_watermark = outcome.replica.low_watermark
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code
        )
    return _refused(wanted.partition_index, code)


def _refused(partition: int, code: Code) -> Any:
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=NO_LOW_WATERMARK, error_code=code)


def refuse(request: Any, code: Code, message: str | None) -> Any:
    topics = tuple(
        DeleteRecordsTopicResult(
            name=topic.name, partitions=tuple(_refused(part.partition_index, code) for part in topic.partitions)
        )
        for topic in request.topics
    )
    return DeleteRecordsResponse(throttle_time=datetime.timedelta(0), topics=topics)
