"""DescribeTopicPartitions (75), version 0. Topics in pages (KIP-966): by name, at most 2,000 partitions an answer; the
cursor in it says where the next one begins. No topics asked for means all."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

from chronik.api import topic_ids
from chronik.api.authorization import gate_of
from chronik.api.context import Caller, RequestContext
from chronik.api.permissions import ALL_ON_TOPIC
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage, Partition, Topic
from chronik.core.machines.metadata.names import is_internal, problem_with

REQUEST = DescribeTopicPartitionsRequest
RESPONSE = DescribeTopicPartitionsResponse

PARTITIONS_PER_ANSWER_MAX = 2000


def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    image = context.metadata.image
    gate = gate_of(context, caller, "describe_topic_partitions")
    names = _names(request, image)
    denied: set[str] = set()
    if gate is not None:
        ask = gate.may if request.topics else gate.sees
        denied = {name for name in names if not ask(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)}
        if not request.topics:  # they were not asked for by name
            names = [name for name in names if name not in denied]
    left = max(1, min(request.response_partition_limit, PARTITIONS_PER_ANSWER_MAX))
    live = {broker.id: None for broker in image.live_brokers()}
    topics: list[Any] = []
    next_cursor = None
    for name in names:
        if left == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topic(name)
        if name in denied:
            topics.append(_missing(name, Code.TOPIC_AUTHORIZATION_FAILED))
            continue
        if topic is None:
            topics.append(_missing(name))
            continue
        start = request.cursor.partition_index if request.cursor and request.cursor.topic_name == name else 0
        shown = topic.partitions[start : start + left]
        operations = ALL_ON_TOPIC if gate is None else gate.operations(AclResourceType.TOPIC, name, ALL_ON_TOPIC)
        topics.append(_topic(topic, start, shown, live, operations))
        left -= len(shown)
        if start + len(shown) < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=start + len(shown))
            break
    return DescribeTopicPartitionsResponse(
        throttle_time=datetime.timedelta(0), topics=tuple(topics), next_cursor=next_cursor
    )


def _names(request: Any, image: MetadataImage) -> list[str]:
    """The topics from the cursor on, in order."""
    cursor = request.cursor
    asked = {topic.name: None for topic in request.topics} if request.topics else image.topics
    if cursor is not None:
        if request.topics and cursor.topic_name not in asked:
            message = f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
            raise Refused(Code.INVALID_REQUEST, message)
        if cursor.partition_index < 0:
            message = f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor.partition_index}"
            raise Refused(Code.INVALID_REQUEST, message)
    return sorted(name for name in asked if cursor is None or name >= cursor.topic_name)


def _topic(topic: Topic, start: int, shown: list[Partition], live: dict[int, None], operations: int) -> Any:
    return DescribeTopicPartitionsResponseTopic(
        error_code=Code.NONE,
        name=topic.name,
        topic_id=topic_ids.to_wire(topic.id),
        is_internal=topic.is_internal,
        partitions=tuple(_partition(number, partition, live) for number, partition in enumerate(shown, start)),
        topic_authorized_operations=operations,
    )


def _partition(number: int, partition: Partition, live: dict[int, None]) -> Any:
    has_leader = partition.leader in live
    return DescribeTopicPartitionsResponsePartition(
        error_code=Code.NONE if has_leader else Code.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync,
        eligible_leader_replicas=partition.eligible,
        # Who was in sync last stays in that set here, without leading; Kafka's set is empty then.
        last_known_elr=() if partition.has_leader else _without(partition.in_sync, partition.lost),
        offline_replicas=tuple(broker_id for broker_id in partition.replicas if broker_id not in live),
    )


def _without(replicas: tuple[int, ...], gone: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in gone)


def _missing(name: str, code: Code | None = None) -> Any:
    if code is None:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION if problem_with(name) is None else Code.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=None, is_internal=is_internal(name), partitions=()
    )


def refuse(request: Any, code: Code, message: str | None) -> Any:
    names = [topic.name for topic in request.topics]
    if not names:  # all were asked for, and there is no other place for the error
        names = [request.cursor.topic_name if request.cursor else ""]
    topics = tuple(_missing(name, code) for name in names)
    return DescribeTopicPartitionsResponse(throttle_time=datetime.timedelta(0), topics=topics)
