"""AlterPartition (56), version 3. A leader asks for other in-sync sets, with the epoch of each member (KIP-903).

Only the controller answers it. Each partition has its own outcome. Version 2, which cannot name epochs, is not spoken:
only nodes ask this, and ours know 3.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData, TopicData

from chronik.api import topic_ids
from chronik.api.context import Caller, RequestContext
from chronik.api.node_sender import check_is_node
from chronik.core.errors import Code
from chronik.core.machines.metadata.controller_commands import AlteredPartition, AlterPartitions, InSyncChange

REQUEST = AlterPartitionRequest
RESPONSE = AlterPartitionResponse


async def handle(request: AlterPartitionRequest, caller: Caller, context: RequestContext) -> AlterPartitionResponse:
    check_is_node(request.broker_id, caller)
    changes = tuple(_change(topic, one) for topic in request.topics for one in topic.partitions)
    altered = await context.metadata.ask_here(AlterPartitions(request.broker_id, request.broker_epoch, changes))
    left = iter(altered)
    return _response(Code.NONE, tuple(_topic(topic, left) for topic in request.topics))


def _change(topic: Any, wanted: Any) -> InSyncChange:
    return InSyncChange(
        topic_id=topic_ids.from_wire(topic.topic_id) or bytes(16),
        partition=wanted.partition_index,
        leader_epoch=wanted.leader_epoch,
        partition_epoch=wanted.partition_epoch,
        in_sync=tuple((member.broker_id, member.broker_epoch) for member in wanted.new_isr_with_epochs),
        is_recovering=bool(wanted.leader_recovery_state),
    )


def _topic(topic: Any, altered: Iterator[AlteredPartition]) -> Any:
    partitions = tuple(_partition(one.partition_index, next(altered)) for one in topic.partitions)
    return TopicData(topic_id=topic.topic_id, partitions=partitions)


def _partition(number: int, altered: AlteredPartition) -> Any:
    return PartitionData(
        partition_index=number,
        error_code=altered.outcome.code,
        leader_id=altered.leader,
        leader_epoch=altered.leader_epoch,
        isr=altered.in_sync,
        leader_recovery_state=int(altered.is_recovering),
        partition_epoch=altered.partition_epoch,
    )


def _response(code: Code, topics: tuple[Any, ...]) -> AlterPartitionResponse:
    return AlterPartitionResponse(throttle_time=datetime.timedelta(0), error_code=code, topics=topics)


def refuse(request: AlterPartitionRequest, code: Code, message: str | None) -> AlterPartitionResponse:
    return _response(code, ())
