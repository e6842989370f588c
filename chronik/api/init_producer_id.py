"""InitProducerId (22), versions 0-5. Gives an idempotent producer its id.

A producer without a transactional id always gets a new id with epoch 0, also when it names the one it has (KIP-360,
version 3 on): Kafka does the same, for such a producer raises its epoch by itself.

Transactions are not supported yet. A transactional id is refused as TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of all codes
it is the one that the Java client, librdkafka and kafka-python take as final and report at once, where an unknown or
'not available' one makes some of them ask for ever.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import AllocateProducerIds, ProducerIdBlock
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID

REQUEST = InitProducerIdRequest
RESPONSE = InitProducerIdResponse


async def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise Refused(Code.INVALID_REQUEST, "An empty transactional id.")
        raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not supported yet.")
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise Refused(Code.INVALID_REQUEST, "A producer id without its epoch, or the other way round.")
    producer_id = context.producer_ids.take()
    while producer_id is None:
        context.producer_ids.add(await _block(context))
        producer_id = context.producer_ids.take()
    return _response(Code.NONE, producer_id, 0)


async def _block(context: RequestContext) -> ProducerIdBlock:
    """Ids for this node. While there is no controller to give it some, a producer is to ask again, as in Kafka."""
    try:
        block: ProducerIdBlock = await context.metadata.ask(AllocateProducerIds(context.node_id))
    except Refused as refused:
        if refused.code in (Code.NOT_CONTROLLER, Code.STALE_BROKER_EPOCH):
            raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS, refused.message) from refused
        raise
    return block


def _response(code: Code, producer_id: int, epoch: int) -> Any:
    return InitProducerIdResponse(
        throttle_time=datetime.timedelta(0), error_code=code, producer_id=producer_id, producer_epoch=epoch
    )


def refuse(request: Any, code: Code, message: str | None) -> Any:
    return _response(code, NO_PRODUCER_ID, NO_EPOCH)
