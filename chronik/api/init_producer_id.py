"""InitProducerId (22), versions 0-5. Gives an idempotent or transactional producer its id and epoch.

A producer without a transactional id always gets a new id with epoch 0, also when it names the one it has (KIP-360,
version 3 on): Kafka does the same, for such a producer raises its epoch by itself.

With a transactional id the producer gets that id's producer id and the next epoch, and all others that use it are
fenced. What they have begun is aborted first: CONCURRENT_TRANSACTIONS until the markers are written. Before 4 a
client does not know PRODUCER_FENCED.
"""

from __future__ import annotations

import datetime

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.producer_ids import wait_for_producer_id
from chronik.api.transactional import ask_with_producer_id, checked_id, fenced_code
from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions.commands import InitProducer, ProducerIdentity
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID

REQUEST = InitProducerIdRequest
RESPONSE = InitProducerIdResponse

FENCED_FROM = 4


async def handle(request: InitProducerIdRequest, caller: Caller, context: RequestContext) -> InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise Refused(Code.INVALID_REQUEST, "A producer id without its epoch, or the other way round.")
    if request.transactional_id is None:
        return _response(Code.NONE, await wait_for_producer_id(context), 0)
    command = InitProducer(
        checked_id(request.transactional_id),
        request.transaction_timeout // datetime.timedelta(milliseconds=1),
        ProducerIdentity(request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None,
    )
    try:
        return _response(Code.NONE, *await ask_with_producer_id(context, command))
    except Refused as refused:
        raise Refused(fenced_code(refused.code, caller.version, FENCED_FROM), refused.message) from refused


def _response(code: Code, producer_id: int, epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=datetime.timedelta(0), error_code=code, producer_id=producer_id, producer_epoch=epoch
    )


def refuse(request: InitProducerIdRequest, code: Code, message: str | None) -> InitProducerIdResponse:
    return _response(code, NO_PRODUCER_ID, NO_EPOCH)
