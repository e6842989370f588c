"""DescribeTransactions (65), version 0. What this coordinator knows of each transactional id."""

from __future__ import annotations

import datetime

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TopicData, TransactionState

from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import checked_id, transactions
from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions.commands import DescribeTransaction
from chronik.core.machines.transactions.transaction import Transaction
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID

REQUEST = DescribeTransactionsRequest
RESPONSE = DescribeTransactionsResponse

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


async def handle(
    request: DescribeTransactionsRequest, caller: Caller, context: RequestContext
) -> DescribeTransactionsResponse:
    return _response(tuple([await _describe(one, context) for one in dict.fromkeys(request.transactional_ids)]))


async def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        checked = checked_id(transactional_id)
        return _state(await transactions(context).ask(checked, DescribeTransaction(checked)))
    except Refused as refused:
        return _refused(transactional_id, refused.code)


def _state(transaction: Transaction) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        error_code=Code.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.status.label,
        transaction_timeout=datetime.timedelta(milliseconds=transaction.timeout_ms),
        transaction_start_time=_EPOCH + datetime.timedelta(milliseconds=transaction.start_ms),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=tuple(TopicData(topic=name, partitions=tuple(numbers)) for name, numbers in topics.items()),
    )


def _refused(transactional_id: str, code: Code) -> TransactionState:
    return TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=datetime.timedelta(0),
        transaction_start_time=_EPOCH,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_EPOCH,
        topics=(),
    )


def _response(states: tuple[TransactionState, ...]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(throttle_time=datetime.timedelta(0), transaction_states=states)


def refuse(request: DescribeTransactionsRequest, code: Code, message: str | None) -> DescribeTransactionsResponse:
    return _response(tuple(_refused(one, code) for one in request.transactional_ids))
