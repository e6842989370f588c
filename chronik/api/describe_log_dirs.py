"""DescribeLogDirs (35), versions 1-5. What the partitions of this node take on disk. From 4 with the disk's size and
what is free; from 5 whether the directory is closed for new partitions, which ours never is."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.replica.replica import Replica

REQUEST = DescribeLogDirsRequest
RESPONSE = DescribeLogDirsResponse


def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    wanted: dict[tuple[str, int], None] | None = None  # null asks for all
    if request.topics is not None:
        wanted = {(topic.topic, partition): None for topic in request.topics for partition in topic.partitions}
    held = {(replica.topic, replica.partition): replica for replica in context.replicas.held()}
    topics: list[Any] = []
    for name, topic in sorted(context.metadata.image.topics.items()):
        partitions = tuple(
            _partition(number, held.get((name, number)))
            for number, partition in enumerate(topic.partitions)
            if context.node_id in partition.replicas and (wanted is None or (name, number) in wanted)
        )
        if partitions:
            topics.append(DescribeLogDirsTopic(name=name, partitions=partitions))
    total_bytes, usable_bytes = context.replicas.disk_bytes()
    directory = DescribeLogDirsResult(
        error_code=Code.NONE,
        log_dir=context.replicas.log_directory(),
        topics=tuple(topics),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(throttle_time=datetime.timedelta(0), error_code=Code.NONE, results=(directory,))


def _partition(number: int, replica: Replica | None) -> Any:
    """A partition that nothing was written to yet need not have files: it is there all the same, and empty."""
    return DescribeLogDirsPartition(
        partition_index=number,
        partition_size=0 if replica is None else replica.log.size_bytes(),
        # How far this copy is behind what is safe: nothing, for a leader.
        offset_lag=0 if replica is None else max(replica.high_watermark - replica.log.end_offset, 0),
        is_future_key=False,
    )


def refuse(request: Any, code: Code, message: str | None) -> Any:
    # Versions below 3 have no place for an error of the whole: there the directory carries it.
    directory = DescribeLogDirsResult(error_code=code, log_dir="", topics=())
    return DescribeLogDirsResponse(throttle_time=datetime.timedelta(0), error_code=code, results=(directory,))
