"""DeleteRecords (21), versions 0-2. Moves the start of a partition's log up; -1 means up to the high watermark.

The answer waits until that is on disk: what was said to be gone does not come back after a crash.
Refused for internal topics, and for topics that are only compacted: there the records' keys say what goes.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from chronik.api.desk import Caller, Desk
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import is_internal

REQUEST = DeleteRecordsRequest
RESPONSE = DeleteRecordsResponse

NO_LOW_WATERMARK = -1


async def handle(request: Any, caller: Caller, desk: Desk) -> Any:
    topics = tuple(
        DeleteRecordsTopicResult(
            name=topic.name, partitions=tuple(_partition(topic.name, part, desk) for part in topic.partitions)
        )
        for topic in request.topics
    )
    if any(not part.error_code for topic in topics for part in topic.partitions):
        await desk.replicas.store_starts()
    return DeleteRecordsResponse(throttle_time=datetime.timedelta(0), topics=topics)


def _partition(topic: str, wanted: Any, desk: Desk) -> Any:
    try:
        if is_internal(topic):
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}")
        replica = desk.replicas.leader(topic, wanted.partition_index)
        if "delete" not in replica.config.cleanup_policy:
            raise Refused(Code.POLICY_VIOLATION, f"Records of {topic} are compacted, not deleted")
        low_watermark = desk.replicas.delete_records(replica, wanted.offset)
    except Refused as refused:
        return _refused(wanted.partition_index, refused.code)
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=Code.NONE
    )


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
