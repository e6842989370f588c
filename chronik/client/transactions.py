"""The transactions of a cluster, asked of their coordinators: which there are, how one stands, and an end to one.

Requests are in versions that every Kafka since 3.0 knows, so it works there too. A node that does not answer is an
error: a list without what that node coordinates would say that it is not there.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chronik.client.cluster_view import view_of
from chronik.client.connecting import check_reachable, parse_addresses, unanswered
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.request import Address, NoAnswer, ask
from chronik.core.errors import Code

ONGOING = "Ongoing"
OPEN_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")  # something of it is not decided for readers yet
TRANSACTION_KEY = 1
WAIT_S = 30.0
PAUSE_S = 0.05
# A coordinator that moves, or still reads its log: asked again.
_AGAIN = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


@dataclass(frozen=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    """By the coordinator's clock; None where nothing is open."""
    partitions: tuple[tuple[str, int], ...]
    coordinator: int

    def open_ms(self, now_ms: int) -> int | None:
        return None if self.started_ms is None or self.state not in OPEN_STATES else max(now_ms - self.started_ms, 0)


class TransactionAdmin:
    """One cluster, asked through any of its nodes. Raises ChronikError."""

    def __init__(self, bootstrap: str) -> None:
        check_reachable(bootstrap)
        self._addresses = self._brokers(bootstrap)

    @staticmethod
    def _brokers(bootstrap: str) -> dict[int, Address]:
        problem: NoAnswer | None = None
        for address in parse_addresses(bootstrap):
            try:
                return dict(view_of(address).addresses)
            except NoAnswer as silent:
                problem = silent
        silent_all = ChronikError(
            f"no node tells which others there are: {problem}", "name one that runs with --bootstrap"
        )
        raise unanswered(bootstrap, silent_all)

    def listed(self, states: Iterable[str] = (), producer_ids: Iterable[int] = ()) -> list[TransactionListing]:
        """All of them, or those in these states or of these producers, by id."""
        from kio.schema.list_transactions.v0.request import ListTransactionsRequest

        found: list[TransactionListing] = []
        request = ListTransactionsRequest(state_filters=tuple(states), producer_id_filters=tuple(producer_ids))
        for node_id in sorted(self._addresses):
            answer = self._answered(node_id, request)
            if answer.unknown_state_filters:
                raise ChronikError(f"no transaction is ever {', '.join(answer.unknown_state_filters)}")
            found += [
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node_id)
                for one in answer.transaction_states
            ]
        return sorted(found, key=lambda one: one.transactional_id)

    def described(self, transactional_id: str) -> TransactionDescription:
        """Raises RefusedByNode (TRANSACTIONAL_ID_NOT_FOUND)."""
        from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest

        deadline = time.monotonic() + WAIT_S
        while True:
            coordinator = self._coordinator(transactional_id)
            answer = self._asked(coordinator, DescribeTransactionsRequest(transactional_ids=(transactional_id,)))
            [one] = answer.transaction_states
            if one.error_code not in _AGAIN or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        _check(Code(one.error_code), f"transactional id {transactional_id}")
        started_ms = _ms_of(one.transaction_start_time)
        return TransactionDescription(
            transactional_id=transactional_id,
            state=one.transaction_state,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            timeout_ms=_ms(one.transaction_timeout),
            started_ms=started_ms,
            partitions=tuple(sorted((topic.topic, number) for topic in one.topics for number in topic.partitions)),
            coordinator=coordinator,
        )

    def existing(self, transactional_id: str) -> TransactionDescription:
        """As `described`, in plain words where there is no such id."""
        try:
            return self.described(transactional_id)
        except RefusedByNode as refused:
            if refused.code != Code.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            raise ChronikError(f"no transactional id {transactional_id}", "see `chronik transaction list`") from None

    def abort_open(self, found: TransactionDescription) -> None:
        """As `abort`; one that is not open is refused, since that would only fence its producer."""
        check_open(found)
        self.abort(found.transactional_id, found.timeout_ms)

    def abort(self, transactional_id: str, timeout_ms: int) -> None:
        """Abort what is open, and fence its producer. Returns when every partition has heard of it."""
        from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=datetime.timedelta(milliseconds=timeout_ms),
            producer_id=-1,
            producer_epoch=-1,
        )
        deadline = time.monotonic() + WAIT_S
        while True:
            code = Code(self._asked(self._coordinator(transactional_id), request).error_code)
            # Concurrent: it is being aborted. The next question that is answered comes after its markers.
            if code not in (*_AGAIN, Code.CONCURRENT_TRANSACTIONS) or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        _check(code, f"transactional id {transactional_id}")

    def _coordinator(self, transactional_id: str) -> int:
        from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest

        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
        answer = self._answered(min(self._addresses), request)
        self._addresses.setdefault(answer.node_id, (answer.host, answer.port))
        return int(answer.node_id)

    def _answered(self, node_id: int, request: Any) -> Any:
        """The answer without an error. One that comes of a change that is under way is asked for again."""
        deadline = time.monotonic() + WAIT_S
        answer = self._asked(node_id, request)
        while answer.error_code in _AGAIN and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            answer = self._asked(node_id, request)
        _check(Code(answer.error_code), f"node {node_id}")
        return answer

    def _asked(self, node_id: int, request: Any) -> Any:
        try:
            return ask(self._addresses[node_id], request)
        except NoAnswer as problem:
            raise ChronikError(f"node {node_id} does not tell of its transactions: {problem}") from problem


def check_open(found: TransactionDescription) -> None:
    """Raises ChronikError."""
    if found.state != ONGOING:
        raise ChronikError(f"{found.transactional_id} has nothing to abort: its transaction is {found.state}")


def _check(code: Code, what: str) -> None:
    if code is not Code.NONE:
        raise RefusedByNode(int(code), f"{what}: {code.name}")


def _ms(duration: datetime.timedelta) -> int:
    return duration // datetime.timedelta(milliseconds=1)


def _ms_of(moment: datetime.datetime | None) -> int | None:
    """In milliseconds since 1970; None where nothing is open."""
    return None if moment is None else round(moment.timestamp() * 1000)
