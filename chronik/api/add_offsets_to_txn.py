"""AddOffsetsToTxn (25), versions 0-4. A producer is about to commit offsets of a group in its transaction.

What is added is the partition of `__consumer_offsets` that has the group: it gets a marker as any other. Before 2 a
client does not know PRODUCER_FENCED. (With transaction version 2 clients do not ask; the group's coordinator does.)
"""

from __future__ import annotations

import datetime

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import checked_id, fenced_code, transactions
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.machines.transactions.commands import AddPartitions, ProducerIdentity
from chronik.core.types import TopicPartition

REQUEST = AddOffsetsToTxnRequest
RESPONSE = AddOffsetsToTxnResponse

FENCED_FROM = 2


async def handle(request: AddOffsetsToTxnRequest, caller: Caller, context: RequestContext) -> AddOffsetsToTxnResponse:
    transactional_id = checked_id(request.transactional_id)
    offsets = TopicPartition(OFFSETS_TOPIC, await context.groups.wait_for_partition(request.group_id))
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        await transactions(context).ask(transactional_id, AddPartitions(transactional_id, producer, (offsets,)))
    except Refused as refused:
        raise Refused(fenced_code(refused.code, caller.version, FENCED_FROM), refused.message) from refused
    return _response(Code.NONE)


def _response(code: Code) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time=datetime.timedelta(0), error_code=code)


def refuse(request: AddOffsetsToTxnRequest, code: Code, message: str | None) -> AddOffsetsToTxnResponse:
    return _response(code)
