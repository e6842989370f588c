"""The transactions machine: all transactional ids of one partition of `__transaction_state`.

`decide` and `expire` only read and return facts; `apply` alone changes state; `encode` and `replay` are the way to the
log and back. The machine decides that a transaction ends; that markers leave only when this is durable, and arrive
everywhere, is its coordinator's business, which says `MarkersWritten` in the end. A machine that was replayed wants
`expire` at once: that is when the time of transactions found in the log begins to count.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import assert_never

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.machine import Decision, LogMarker, LogRecord, Reply
from chronik.core.machines.transactions import records, transitions
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    AnyTransactionCommand,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    PartitionsAdded,
    TransactionCompleted,
    VerifyPartitions,
)
from chronik.core.machines.transactions.facts import (
    DeadlineSet,
    EndReason,
    ExpiryLookedAt,
    TransactionFact,
    TransactionForgotten,
    TransactionSet,
)
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus

# At four bytes a character at most, within the 32,767 bytes that a record's string can have.
ID_CHARS_MAX = 8_000
PARTITIONS_BYTES_MAX = 512 * 1024  # of all partitions of one transaction: its record must fit into a batch
FORGOTTEN_AT_ONCE = 1_000
IDS_MAX = 100_000  # each is kept in memory


class TransactionsMachine:
    """Transactional ids and their transactions, decided here and nowhere else."""

    def __init__(
        self, partition: int, config: TransactionsConfig, version: Callable[[], int], ids_max: int = IDS_MAX
    ) -> None:
        self.partition = partition
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self._unfinished: dict[str, None] = {}  # ongoing or prepared, in the order in which they began
        self._ids_max = ids_max
        self._look_interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._version = version  # transaction.version of the cluster, as it is now
        self._deadlines: dict[str, int] = {}  # of ongoing transactions, in steady time
        self._heap: list[tuple[int, str]] = []  # may hold entries that are out of date; its head never is
        self._next_look_ms: int | None = None  # for expired ids; None: not since it was replayed

    # Reading

    def prepared(self) -> Iterator[Transaction]:
        """Transactions that wait for their markers."""
        return (transaction for transaction in self.transactions.values() if transaction.is_prepared)

    def unfinished(self) -> Iterator[Transaction]:
        """Those that are ongoing or prepared, the one that began first first."""
        return (self.transactions[transactional_id] for transactional_id in self._unfinished)

    def next_deadline_ms(self) -> int | None:
        if self._next_look_ms is None:
            return 0
        return min(self._next_look_ms, self._heap[0][0]) if self._heap else self._next_look_ms

    # Deciding

    def decide(
        self, ticket: int, command: AnyTransactionCommand, now_ms: int, wall_ms: int | None = None
    ) -> Decision[TransactionFact]:
        at_ms = now_ms if wall_ms is None else max(now_ms, wall_ms)  # what is kept: see groups/offsets.py
        match command:
            case InitProducer():
                return self._initialize(ticket, command, at_ms)
            case AddPartitions():
                return self._add(ticket, command, now_ms, at_ms)
            case VerifyPartitions():
                answer = transitions.verified(self._known(command.transactional_id), command)
                return Decision([], [Reply(ticket, answer)])
            case EndTransaction():
                ended = transitions.ended(self._known(command.transactional_id), command, at_ms)
                facts = self._set(ended.transaction)
                return Decision(facts, [Reply(ticket, ended.answer)])
            case MarkersWritten():
                return self._complete(ticket, command, at_ms)
            case DescribeTransaction(transactional_id):
                found = self.transactions.get(transactional_id)
                if found is None:
                    raise Refused(Code.TRANSACTIONAL_ID_NOT_FOUND)
                return Decision([], [Reply(ticket, found)])
        assert_never(command)

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refused(Code.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _initialize(self, ticket: int, command: InitProducer, at_ms: int) -> Decision[TransactionFact]:
        if not 0 < command.timeout_ms <= self.config.transaction_max_timeout_ms:
            raise Refused(Code.INVALID_TRANSACTION_TIMEOUT)
        if len(command.transactional_id) > ID_CHARS_MAX:
            raise Refused(Code.INVALID_REQUEST, f"a transactional id longer than {ID_CHARS_MAX} characters")
        known = self.transactions.get(command.transactional_id)
        if known is None:
            if len(self.transactions) >= self._ids_max:
                message = f"this coordinator has {len(self.transactions)} transactional ids"
                raise Refused(Code.INVALID_REQUEST, message)
            ended = transitions.begun(command, at_ms)
        elif known.status is TransactionStatus.ONGOING and _may_fence(known, command):
            # Its epoch is never given out: the producer asks again, and then gets the next one.
            fenced = transitions.fenced(known, self._version(), at_ms)
            refusal = Reply(ticket, Refused(Code.CONCURRENT_TRANSACTIONS))
            return Decision(self._set(fenced, EndReason.FENCED), [refusal])
        else:
            ended = transitions.initialized(known, command, at_ms)
        return Decision(self._set(ended.transaction), [Reply(ticket, ended.answer)])

    def _set(self, transaction: Transaction | None, reason: EndReason = EndReason.CLIENT) -> list[TransactionFact]:
        if transaction is None:
            return []
        before = self.transactions.get(transaction.transactional_id)
        return [TransactionSet(transaction, self._record_version(), before=before, reason=reason)]

    def _record_version(self) -> int:
        return 0 if self._version() == 0 else 1

    def _add(self, ticket: int, command: AddPartitions, now_ms: int, at_ms: int) -> Decision[TransactionFact]:
        known = self._known(command.transactional_id)
        transaction = transitions.added(known, command, at_ms)
        facts: list[TransactionFact] = []
        if transaction is not None:
            if _size_bytes(transaction) > PARTITIONS_BYTES_MAX:
                message = f"a transaction with {len(transaction.partitions)} partitions"
                raise Refused(Code.INVALID_REQUEST, message)
            deadline_ms = self._deadlines.get(command.transactional_id, now_ms + transaction.timeout_ms)
            facts.append(TransactionSet(transaction, self._record_version(), deadline_ms, before=known))
        return Decision(facts, [Reply(ticket, PartitionsAdded())])

    def _complete(self, ticket: int, command: MarkersWritten, at_ms: int) -> Decision[TransactionFact]:
        known = self.transactions.get(command.transactional_id)
        is_it = known is not None and known.is_prepared
        if known is None or not is_it or (known.producer_id, known.producer_epoch) != command.producer:
            return Decision([], [Reply(ticket, TransactionCompleted(is_new=False))])
        completed = transitions.completed(known, at_ms)
        return Decision(self._set(completed), [Reply(ticket, TransactionCompleted(is_new=True))])

    def expire(self, now_ms: int, wall_ms: int | None = None) -> Decision[TransactionFact]:
        """Transactions whose time is up are aborted, one a call; ids that were not used for long are forgotten."""
        at_ms = now_ms if wall_ms is None else max(now_ms, wall_ms)
        measured_ms = now_ms if wall_ms is None else min(now_ms, wall_ms)
        if self._next_look_ms is None:
            return self._start_after_replay(now_ms, measured_ms)
        if self._heap and self._heap[0][0] <= now_ms:
            transaction = self.transactions[self._heap[0][1]]
            fenced = transitions.fenced(transaction, self._version(), at_ms)
            return Decision(self._set(fenced, EndReason.TIMEOUT))
        if self._next_look_ms <= now_ms:
            return self._forget_expired(now_ms, measured_ms)
        return Decision()

    def _start_after_replay(self, now_ms: int, measured_ms: int) -> Decision[TransactionFact]:
        """A transaction has what is left of its time. A clock that was set back gives it no more than all of it."""
        facts: list[TransactionFact] = [ExpiryLookedAt(now_ms + self._look_interval_ms)]
        for one in self.transactions.values():
            if one.status is TransactionStatus.ONGOING:
                left_ms = min(max(one.start_ms + one.timeout_ms - measured_ms, 0), one.timeout_ms)
                facts.append(DeadlineSet(one.transactional_id, now_ms + left_ms))
        return Decision(facts)

    def _forget_expired(self, now_ms: int, measured_ms: int) -> Decision[TransactionFact]:
        facts: list[TransactionFact] = []
        for one in self.transactions.values():
            if one.may_expire and measured_ms - one.last_update_ms >= self.config.transactional_id_expiration_ms:
                facts.append(TransactionForgotten(one.transactional_id))
                if len(facts) >= FORGOTTEN_AT_ONCE:
                    return Decision(facts, is_atomic=False)  # the look is due still
        facts.append(ExpiryLookedAt(now_ms + self._look_interval_ms))
        return Decision(facts, is_atomic=False)

    # Changing

    def apply(self, fact: TransactionFact) -> None:
        match fact:
            case TransactionSet(transaction, _, deadline_ms):
                self.transactions[transaction.transactional_id] = transaction
                if transaction.may_expire:
                    self._unfinished.pop(transaction.transactional_id, None)
                else:
                    self._unfinished[transaction.transactional_id] = None
                self._set_deadline(transaction.transactional_id, deadline_ms)
            case TransactionForgotten(transactional_id):
                self.transactions.pop(transactional_id, None)
                self._unfinished.pop(transactional_id, None)
                self._set_deadline(transactional_id, None)
            case DeadlineSet(transactional_id, deadline_ms):
                self._set_deadline(transactional_id, deadline_ms)
            case ExpiryLookedAt(next_ms):
                self._next_look_ms = next_ms
            case _:
                assert_never(fact)

    def _set_deadline(self, transactional_id: str, deadline_ms: int | None) -> None:
        if deadline_ms is None:
            self._deadlines.pop(transactional_id, None)
        elif self._deadlines.get(transactional_id) != deadline_ms:
            self._deadlines[transactional_id] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, transactional_id))
        if len(self._heap) > 4 * len(self._deadlines) + 64:
            self._heap = [(at_ms, one) for one, at_ms in self._deadlines.items()]
            heapq.heapify(self._heap)
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    # The log

    def encode(self, fact: TransactionFact) -> LogRecord:
        return records.encode(fact)

    def replay(self, record: LogRecord) -> None:
        fact = records.decode(record)
        if fact is not None:
            self.apply(fact)

    def decided(self, marker: LogMarker) -> list[TransactionFact]:
        return []  # nothing is written to this log in a transaction


def _may_fence(known: Transaction, command: InitProducer) -> bool:
    """Whether the one that asks may abort an ongoing transaction: any that names no identity; else only its own."""
    expected = command.expected
    return expected is None or transitions.may_continue(known, expected)


def _size_bytes(transaction: Transaction) -> int:
    topics = {topic for topic, _ in transaction.partitions}
    return sum(map(len, topics)) + 8 * len(topics) + 4 * len(transaction.partitions)
