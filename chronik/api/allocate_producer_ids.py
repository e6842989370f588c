"""AllocateProducerIds (67), version 0. A node gets a block of producer ids that nothing else gives out (KIP-730).

Only the controller answers it.
"""

from __future__ import annotations

import datetime

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.node_sender import check_is_node
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ANY_BROKER_EPOCH, AllocateProducerIds

REQUEST = AllocateProducerIdsRequest
RESPONSE = AllocateProducerIdsResponse


async def handle(
    request: AllocateProducerIdsRequest, caller: Caller, context: RequestContext
) -> AllocateProducerIdsResponse:
    check_is_node(request.broker_id, caller)
    if request.broker_epoch == ANY_BROKER_EPOCH:  # only the controller's own broker may leave it out
        raise Refused(Code.STALE_BROKER_EPOCH)
    block = await context.metadata.ask_here(AllocateProducerIds(request.broker_id, request.broker_epoch))
    return _response(Code.NONE, block.start_id, block.end_id - block.start_id)


def _response(code: Code, start_id: int, count: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        throttle_time=datetime.timedelta(0), error_code=code, producer_id_start=start_id, producer_id_len=count
    )


def refuse(request: AllocateProducerIdsRequest, code: Code, message: str | None) -> AllocateProducerIdsResponse:
    return _response(code, 0, 0)
