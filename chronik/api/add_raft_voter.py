"""AddRaftVoter (80), versions 0-1. A node that has caught up gets a vote (KIP-853). From 1 one need not wait until that
is safe."""

from __future__ import annotations

import asyncio
import datetime

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import check_cluster, quorum_of
from chronik.core.errors import Code, Refused

REQUEST = AddRaftVoterRequest
RESPONSE = AddRaftVoterResponse
NO_TIME = datetime.timedelta(0)


async def handle(request: AddRaftVoterRequest, caller: Caller, context: RequestContext) -> AddRaftVoterResponse:
    check_cluster(request.cluster_id, context)
    address = (request.listeners[0].host, request.listeners[0].port) if request.listeners else None
    timeout_s = max(request.timeout.total_seconds(), 0.001)
    try:
        async with asyncio.timeout(timeout_s):
            await quorum_of(context).add_voter(request.voter_id, address, is_waited_for=request.ack_when_committed)
    except TimeoutError as problem:
        raise Refused(Code.REQUEST_TIMED_OUT, "the change of voters is not safe yet") from problem
    return AddRaftVoterResponse(throttle_time=NO_TIME, error_code=Code.NONE, error_message=None)


def refuse(request: AddRaftVoterRequest, code: Code, message: str | None) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(throttle_time=NO_TIME, error_code=code, error_message=message)
