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

from chronik.api.desk import Caller, Desk
from chronik.core.errors import Code

REQUEST = DescribeLogDirsRequest
RESPONSE = DescribeLogDirsResponse


def handle(request: Any, caller: Caller, desk: Desk) -> Any:
    wanted: dict[tuple[str, int], None] | None = None  # null asks for all
    if request.topics is not None:
        wanted = {(topic.topic, partition): None for topic in request.topics for partition in topic.partitions}
    by_topic: dict[str, list[Any]] = {}
    for replica in desk.replicas.held():
        if wanted is None or (replica.topic, replica.partition) in wanted:
            by_topic.setdefault(replica.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=replica.partition,
                    partition_size=replica.log.size_bytes(),
                    # How far this copy is behind what is safe: nothing, for a leader.
                    offset_lag=max(replica.high_watermark - replica.log.end_offset, 0),
                    is_future_key=False,
                )
            )
    total_bytes, usable_bytes = desk.replicas.disk_bytes()
    directory = DescribeLogDirsResult(
        error_code=Code.NONE,
        log_dir=desk.replicas.log_directory(),
        topics=tuple(DescribeLogDirsTopic(name=name, partitions=tuple(parts)) for name, parts in by_topic.items()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(throttle_time=datetime.timedelta(0), error_code=Code.NONE, results=(directory,))


def refuse(request: Any, code: Code, message: str | None) -> Any:
    # Versions below 3 have no place for an error of the whole: there the directory carries it.
    directory = DescribeLogDirsResult(error_code=code, log_dir="", topics=())
    return DescribeLogDirsResponse(throttle_time=datetime.timedelta(0), error_code=code, results=(directory,))
