"""ListPartitionReassignments (46), version 0. The moves under way: of some partitions, or (null) of all.

Every node knows them; what was begun a moment ago is surely known to the controller.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.reassignments import moves

REQUEST = ListPartitionReassignmentsRequest
RESPONSE = ListPartitionReassignmentsResponse


def handle(
    request: ListPartitionReassignmentsRequest, caller: Caller, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    topics = None
    if request.topics is not None:
        topics = [(topic.name, tuple(topic.partition_indexes)) for topic in request.topics]
    found: dict[str, list[Any]] = {}
    for move in moves(context.metadata.image, topics):
        one = OngoingPartitionReassignment(
            partition_index=move.partition,
            replicas=move.replicas,
            adding_replicas=move.adding,
            removing_replicas=move.removing,
        )
        found.setdefault(move.topic, []).append(one)
    return _response(
        Code.NONE,
        None,
        tuple(OngoingTopicReassignment(name=name, partitions=tuple(partitions)) for name, partitions in found.items()),
    )


def _response(code: Code, message: str | None, topics: tuple[Any, ...]) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time=datetime.timedelta(0), error_code=code, error_message=message, topics=topics
    )


def refuse(
    request: ListPartitionReassignmentsRequest, code: Code, message: str | None
) -> ListPartitionReassignmentsResponse:
    return _response(code, message, ())
