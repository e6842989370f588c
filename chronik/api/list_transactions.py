"""ListTransactions (66), versions 0-2. The transactional ids that this node coordinates.

They can be picked by state and by producer id, from 1 by how long their transaction has been open (KIP-994), from 2
by a pattern for the whole id (KIP-1152). A state that does not exist is named in the answer.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState

from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import transactions
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.pattern import BadPattern, Pattern
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus

REQUEST = ListTransactionsRequest
RESPONSE = ListTransactionsResponse

_STATES = {status.label: status for status in TransactionStatus}


async def handle(request: ListTransactionsRequest, caller: Caller, context: RequestContext) -> ListTransactionsResponse:
    desk = transactions(context)
    if desk.is_loading:  # a list that lacks some looks as if they were gone
        raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
    is_wanted = _picking(request, context.clock.now_ms())
    found = tuple(
        TransactionState(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            transaction_state=one.status.label,
        )
        for machine in desk.machines()
        for one in machine.transactions.values()
        if is_wanted(one)
    )
    unknown = tuple(name for name in dict.fromkeys(request.state_filters) if name not in _STATES)
    return _response(Code.NONE, unknown, found)


def _picking(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    """Raises Refused (INVALID_REGULAR_EXPRESSION)."""
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    producer_ids = frozenset(request.producer_id_filters)
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = Pattern(request.transactional_id_pattern)
        except BadPattern as problem:
            raise Refused(Code.INVALID_REGULAR_EXPRESSION, str(problem)) from problem

    def is_wanted(one: Transaction) -> bool:
        return (
            (not request.state_filters or one.status in states)
            and (not producer_ids or one.producer_id in producer_ids)
            and (request.duration_filter < 0 or now_ms - one.start_ms > request.duration_filter)
            and (pattern is None or pattern.matches(one.transactional_id))
        )

    return is_wanted


def _response(code: Code, unknown: tuple[str, ...], states: tuple[TransactionState, ...]) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=states,
    )


def refuse(request: ListTransactionsRequest, code: Code, message: str | None) -> ListTransactionsResponse:
    return _response(code, (), ())
