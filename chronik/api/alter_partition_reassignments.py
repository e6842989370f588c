"""AlterPartitionReassignments (45), versions 0-1. Partitions move to other brokers; null replicas take a move back.

Runs on the controller. From 1 a client may say that the number of replicas must stay as it is.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ChangeOutcome
from chronik.core.machines.metadata.controller_commands import AlterReassignments, Reassignment

REQUEST = AlterPartitionReassignmentsRequest
RESPONSE = AlterPartitionReassignmentsResponse


async def handle(
    request: AlterPartitionReassignmentsRequest, caller: Caller, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    wanted = tuple(
        Reassignment(topic.name, one.partition_index, None if one.replicas is None else tuple(one.replicas))
        for topic in request.topics
        for one in topic.partitions
    )
    command = AlterReassignments(wanted, may_change_factor=request.allow_replication_factor_change)
    return _response(request, ChangeOutcome(), await context.metadata.ask_here(command))


def _response(
    request: AlterPartitionReassignmentsRequest, whole: ChangeOutcome, outcomes: tuple[ChangeOutcome, ...]
) -> AlterPartitionReassignmentsResponse:
    left = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        throttle_time=datetime.timedelta(0),
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=whole.code,
        error_message=whole.message,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name, partitions=tuple(_partition(one, next(left)) for one in topic.partitions)
            )
            for topic in request.topics
        ),
    )


def _partition(asked: Any, outcome: ChangeOutcome) -> Any:
    return ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=outcome.code, error_message=outcome.message
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, code: Code, message: str | None
) -> AlterPartitionReassignmentsResponse:
    outcome = ChangeOutcome(code, message)
    return _response(request, outcome, (outcome,) * sum(len(topic.partitions) for topic in request.topics))
