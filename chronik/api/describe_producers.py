"""DescribeProducers (61), version 0. The idempotent producers a partition remembers (KIP-664)."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import problem_with

REQUEST = DescribeProducersRequest
RESPONSE = DescribeProducersResponse


def handle(request: DescribeProducersRequest, caller: Caller, context: RequestContext) -> DescribeProducersResponse:
    topics = tuple(
        TopicResponse(
            name=topic.name, partitions=tuple(_partition(topic.name, part, context) for part in topic.partition_indexes)
        )
        for topic in request.topics
    )
    return DescribeProducersResponse(throttle_time=datetime.timedelta(0), topics=topics)


def _partition(topic: str, partition: int, context: RequestContext) -> Any:
    try:
        problem = problem_with(topic)
        if problem is not None:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, problem)
        replica = context.replicas.leader(topic, partition)
    except Refused as refused:
        return _refused(partition, refused.code, refused.message)
    producers = tuple(
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_start_offset,
        )
        for producer in replica.log.producers.states()
    )
    return PartitionResponse(partition_index=partition, error_code=Code.NONE, active_producers=producers)


def _refused(partition: int, code: Code, message: str | None) -> Any:
    return PartitionResponse(partition_index=partition, error_code=code, error_message=message, active_producers=())


def refuse(request: DescribeProducersRequest, code: Code, message: str | None) -> DescribeProducersResponse:
    topics = tuple(
        TopicResponse(
            name=topic.name, partitions=tuple(_refused(part, code, message) for part in topic.partition_indexes)
        )
        for topic in request.topics
    )
    return DescribeProducersResponse(throttle_time=datetime.timedelta(0), topics=topics)
