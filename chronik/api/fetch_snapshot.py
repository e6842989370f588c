"""FetchSnapshot (59), versions 0-1. A node whose log is too far behind gets a snapshot's bytes, piece by piece."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.fetch_snapshot.v1 import request as asked
from kio.schema.fetch_snapshot.v1 import response as wire
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest
from kio.schema.fetch_snapshot.v1.response import FetchSnapshotResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import (
    PARTITION,
    answered,
    check_sender,
    id_of,
    leader_of,
    only_partition,
    quorum_of,
    remembered,
)
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.raft.messages import FetchSnapshot, FetchSnapshotAnswer, LogPoint

KEY = 59
REQUEST = FetchSnapshotRequest
RESPONSE = FetchSnapshotResponse
NO_TIME = datetime.timedelta(0)


def handle(request: FetchSnapshotRequest, caller: Caller, context: RequestContext) -> FetchSnapshotResponse:
    check_sender(request.cluster_id, request.replica_id, caller, context)
    part = only_partition(request.topics, "partition", "name")
    point = LogPoint(part.snapshot_id.epoch, part.snapshot_id.end_offset)
    quorum = quorum_of(context)
    sender = remembered(request.replica_id, quorum)
    fetch = FetchSnapshot(sender, part.current_leader_epoch, point, part.position, request.max_bytes)
    answer = quorum.step(fetch)
    content = b""
    if answer.code is Code.NONE:
        try:
            content = quorum.read_snapshot_part(point, answer.position, answer.end_position - answer.position)
        except OSError as problem:
            raise Refused(Code.KAFKA_STORAGE_ERROR, str(problem)) from problem
    partition_answer = wire.PartitionSnapshot(
        index=PARTITION,
        error_code=answer.code,
        snapshot_id=wire.SnapshotId(end_offset=point.end_offset, epoch=point.epoch),
        current_leader=wire.LeaderIdAndEpoch(leader_id=id_of(answer.leader), leader_epoch=answer.epoch),
        size=answer.size_bytes,
        position=answer.position,
        unaligned_records=content,
    )
    topics = (wire.TopicSnapshot(name=METADATA_TOPIC, partitions=(partition_answer,)),)
    return FetchSnapshotResponse(throttle_time=NO_TIME, error_code=Code.NONE, topics=topics)


def refuse(request: FetchSnapshotRequest, code: Code, message: str | None) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(throttle_time=NO_TIME, error_code=code, topics=())


# --- the asking side


def request_of(fetch: FetchSnapshot, to: int, cluster_id: str) -> Any:
    part = asked.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=fetch.epoch,
        snapshot_id=asked.SnapshotId(end_offset=fetch.snapshot.end_offset, epoch=fetch.snapshot.epoch),
        position=fetch.position,
    )
    topics = (asked.TopicSnapshot(name=METADATA_TOPIC, partitions=(part,)),)
    return FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=fetch.sender, max_bytes=fetch.bytes_max, topics=topics
    )


def answer_of(response: Any, fetch: FetchSnapshot, sender: int) -> tuple[FetchSnapshotAnswer, bytes]:
    """The answer, and the bytes that came with it. Raises Refused."""
    part = answered(response, "index", "name")
    content = part.unaligned_records or b""
    answer = FetchSnapshotAnswer(
        sender,
        part.current_leader.leader_epoch,
        leader_of(part.current_leader.leader_id),
        LogPoint(part.snapshot_id.epoch, part.snapshot_id.end_offset),
        part.position,
        part.position + len(content),
        part.size,
        Code(part.error_code),
    )
    return answer, content
