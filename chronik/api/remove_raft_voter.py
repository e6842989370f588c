"""RemoveRaftVoter (81), version 0. A voter loses its vote (KIP-853)."""

from __future__ import annotations

import asyncio
import datetime

from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import check_cluster, quorum_of
from chronik.core.errors import Code, Refused

REQUEST = RemoveRaftVoterRequest
RESPONSE = RemoveRaftVoterResponse
NO_TIME = datetime.timedelta(0)
SAFE_S_MAX = 10.0


async def handle(request: RemoveRaftVoterRequest, caller: Caller, context: RequestContext) -> RemoveRaftVoterResponse:
    check_cluster(request.cluster_id, context)
    try:
        async with asyncio.timeout(SAFE_S_MAX):
            await quorum_of(context).remove_voter(request.voter_id)
    except TimeoutError as problem:
        raise Refused(Code.REQUEST_TIMED_OUT, "the change of voters is not safe yet") from problem
    return RemoveRaftVoterResponse(throttle_time=NO_TIME, error_code=Code.NONE, error_message=None)


def refuse(request: RemoveRaftVoterRequest, code: Code, message: str | None) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(throttle_time=NO_TIME, error_code=code, error_message=message)
