"""ElectLeaders (43), versions 0-2. The preferred leaders, or (from 1 on) unclean ones where nothing else can lead.

Runs on the controller. Null asks for all partitions: then those that need no election are left out of the answer.
Version 0 has no error for the whole, so a refusal stands at every partition as well.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ChangeOutcome
from chronik.core.machines.metadata.controller_commands import ElectedLeader, ElectLeaders

REQUEST = ElectLeadersRequest
RESPONSE = ElectLeadersResponse

PREFERRED, UNCLEAN = 0, 1


async def handle(request: ElectLeadersRequest, caller: Caller, context: RequestContext) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise Refused(Code.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    partitions = None if request.topic_partitions is None else tuple(_asked_for(request))
    elected = await context.metadata.ask_here(ElectLeaders(partitions, request.election_type == UNCLEAN))
    return _response(Code.NONE, elected)


def _asked_for(request: ElectLeadersRequest) -> Iterable[tuple[str, int]]:
    return ((topic.topic, number) for topic in request.topic_partitions or () for number in topic.partitions)


def _response(code: Code, elected: Iterable[ElectedLeader]) -> ElectLeadersResponse:
    topics: dict[str, list[Any]] = {}
    for one in elected:
        result = PartitionResult(
            partition_id=one.partition, error_code=one.outcome.code, error_message=one.outcome.message
        )
        topics.setdefault(one.topic, []).append(result)
    return ElectLeadersResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=topic, partition_result=tuple(results)) for topic, results in topics.items()
        ),
    )


def refuse(request: ElectLeadersRequest, code: Code, message: str | None) -> ElectLeadersResponse:
    return _response(
        code, [ElectedLeader(topic, number, ChangeOutcome(code, message)) for topic, number in _asked_for(request)]
    )
