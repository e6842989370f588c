"""EndTxn (26), versions 0-5. A producer commits or aborts its transaction.

The answer comes when the decision is durable: the markers follow by themselves, and until they are everywhere the
producer's next request is CONCURRENT_TRANSACTIONS. From 5 (KIP-890) each end gives the producer a new epoch, and
sometimes a new id. Before 2 a client does not know PRODUCER_FENCED.
"""

from __future__ import annotations

import datetime

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import ask_with_producer_id, checked_id, fenced_code
from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions.commands import EndTransaction, ProducerIdentity
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID

REQUEST = EndTxnRequest
RESPONSE = EndTxnResponse

FENCED_FROM = 2
EPOCH_BUMP_FROM, EPOCH_BUMP_CLIENT = 5, 2
_NO_PRODUCER = ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)


async def handle(request: EndTxnRequest, caller: Caller, context: RequestContext) -> EndTxnResponse:
    command = EndTransaction(
        checked_id(request.transactional_id),
        ProducerIdentity(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        client_version=EPOCH_BUMP_CLIENT if caller.version >= EPOCH_BUMP_FROM else 0,
    )
    try:
        return _response(Code.NONE, await ask_with_producer_id(context, command))
    except Refused as refused:
        raise Refused(fenced_code(refused.code, caller.version, FENCED_FROM), refused.message) from refused


def _response(code: Code, producer: ProducerIdentity) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )


def refuse(request: EndTxnRequest, code: Code, message: str | None) -> EndTxnResponse:
    return _response(code, _NO_PRODUCER)
