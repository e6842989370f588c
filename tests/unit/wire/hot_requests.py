"""Produce and fetch requests as kio writes them, in any version."""

from __future__ import annotations

import datetime
import uuid
from typing import Any, TypeAlias

from chronik.wire.fetch import FetchRequest
from tests.unit.wire.messages import request_type, write

Topics: TypeAlias = list[tuple[str | bytes, list[tuple[int, bytes | None]]]]


def produce_request(version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: Topics) -> bytes:
    kio: Any = __import__(request_type(0, version).__module__, fromlist=["*"])
    return write(
        kio.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout=datetime.timedelta(milliseconds=timeout_ms),
            topic_data=tuple(
                kio.TopicProduceData(
                    **({"topic_id": uuid.UUID(bytes=topic)} if isinstance(topic, bytes) else {"name": topic}),
                    partition_data=tuple(
                        kio.PartitionProduceData(index=index, records=records) for index, records in partitions
                    ),
                )
                for topic, partitions in topics
            ),
        )
    )


def named(topic: str | bytes) -> dict[str, Any]:
    return {"topic_id": uuid.UUID(bytes=topic)} if isinstance(topic, bytes) else {"topic": topic}


def fetch_request(version: int, request: FetchRequest) -> bytes:
    kind = request_type(1, version)
    kio: Any = __import__(kind.__module__, fromlist=["*"])
    topics: dict[str | bytes, list[Any]] = {}
    for asked in request.partitions:
        fields: dict[str, Any] = {
            "partition": asked.partition,
            "fetch_offset": asked.fetch_offset,
            "partition_max_bytes": asked.max_bytes,
        }
        if version >= 5:
            fields["log_start_offset"] = asked.log_start_offset
        if version >= 9:
            fields["current_leader_epoch"] = asked.leader_epoch
        if version >= 12:
            fields["last_fetched_epoch"] = asked.last_fetched_epoch
        if version >= 18:
            fields["high_watermark"] = asked.high_watermark
        topics.setdefault(asked.topic, []).append(kio.FetchPartition(**fields))
    fields = {
        "max_wait": datetime.timedelta(milliseconds=request.max_wait_ms),
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "topics": tuple(kio.FetchTopic(**named(topic), partitions=tuple(found)) for topic, found in topics.items()),
    }
    if version <= 14:
        fields["replica_id"] = request.replica_id
    else:
        fields["replica_state"] = kio.ReplicaState(replica_id=request.replica_id, replica_epoch=request.replica_epoch)
    if version >= 7:
        forgotten: dict[str | bytes, list[int]] = {}
        for topic, partition in request.forgotten:
            forgotten.setdefault(topic, []).append(partition)
        fields |= {"session_id": request.session_id, "session_epoch": request.session_epoch}
        fields["forgotten_topics_data"] = tuple(
            kio.ForgottenTopic(**named(topic), partitions=tuple(partitions)) for topic, partitions in forgotten.items()
        )
    if version >= 11:
        fields["rack_id"] = request.rack_id
    if version >= 12:
        fields["cluster_id"] = request.cluster_id
    return write(kio.FetchRequest(**fields))
