"""How a transactional id goes from one state to the next: pure functions from a command and what is known.

Kafka's rules (KIP-98, 360, 588, 890, and its TransactionCoordinator), with one difference in form: a decision here is
one step, so there is no pending state between 'asked' and 'in the log'. Whatever a client of ours gets as a refusal is
raised; two refusals come with a change of state (a fence), and are returned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    PartitionsVerified,
    ProducerIdentity,
    ProducerIdNeeded,
    VerifyPartitions,
)
from chronik.core.machines.transactions.transaction import (
    FOLLOWS,
    LAST_EPOCH,
    LAST_EPOCH_FOR_PRODUCERS,
    NO_TIME_MS,
    Transaction,
    TransactionStatus,
)
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID

EPOCH_BUMP_VERSION = 2  # transaction.version from which each end raises the epoch


class Ended(NamedTuple):
    """How a transaction goes on (None: as it is), and the answer to its producer."""

    transaction: Transaction | None
    answer: ProducerIdentity | ProducerIdNeeded


def changed(transaction: Transaction, status: TransactionStatus, at_ms: int, **changes: object) -> Transaction:
    assert status in FOLLOWS[transaction.status], f"{transaction.status.label} is not followed by {status.label}"
    return replace(transaction, status=status, last_update_ms=at_ms, **changes)  # type: ignore[arg-type]


# --- InitProducerId


def begun(command: InitProducer, at_ms: int) -> Ended:
    """A transactional id that is not known yet."""
    if command.new_producer_id is None:
        return Ended(None, ProducerIdNeeded())
    transaction = Transaction(
        command.transactional_id,
        command.new_producer_id,
        0,
        command.timeout_ms,
        last_update_ms=at_ms,
        previous_producer_id=command.new_producer_id,
    )
    return Ended(transaction, ProducerIdentity(transaction.producer_id, 0))


def initialized(transaction: Transaction, command: InitProducer, at_ms: int) -> Ended:
    """A producer with a known id begins anew. Raises Refused (PRODUCER_FENCED, CONCURRENT_TRANSACTIONS)."""
    expected = command.expected
    if expected is not None and not may_continue(transaction, expected):
        raise Refused(Code.PRODUCER_FENCED)
    assert transaction.status is not TransactionStatus.ONGOING  # its caller fences that first
    if transaction.is_prepared:
        raise Refused(Code.CONCURRENT_TRANSACTIONS)
    if transaction.is_epoch_exhausted and (expected is None or expected.producer_epoch == transaction.producer_epoch):
        return _rotated(transaction, command, at_ms)
    epoch, last_epoch = _next_epoch(transaction, expected)
    begun_anew = changed(
        transaction,
        TransactionStatus.EMPTY,
        at_ms,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=command.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME_MS,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        client_version=0,
    )
    return Ended(begun_anew, ProducerIdentity(begun_anew.producer_id, epoch))


def may_continue(transaction: Transaction, expected: ProducerIdentity) -> bool:
    """With the id it has, or with the one before when its epochs were used up: a retry after a lost answer. Which epoch
    that is, is looked at where it is raised."""
    if expected.producer_id == transaction.producer_id:
        return True
    is_used_up = expected.producer_epoch >= LAST_EPOCH_FOR_PRODUCERS
    return expected.producer_id == transaction.previous_producer_id and is_used_up


def _rotated(transaction: Transaction, command: InitProducer, at_ms: int) -> Ended:
    if command.new_producer_id is None:
        return Ended(None, ProducerIdNeeded())
    rotated = changed(
        transaction,
        TransactionStatus.EMPTY,
        at_ms,
        producer_id=command.new_producer_id,
        producer_epoch=0,
        last_producer_epoch=NO_EPOCH if command.expected is None else transaction.producer_epoch,
        timeout_ms=command.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME_MS,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        client_version=0,
    )
    return Ended(rotated, ProducerIdentity(rotated.producer_id, 0))


def _next_epoch(transaction: Transaction, expected: ProducerIdentity | None) -> tuple[int, int]:
    """The epoch that the producer goes on with, and the one it may name when it asks again."""
    if expected is None:
        return transaction.producer_epoch + 1, NO_EPOCH
    if expected.producer_epoch == transaction.producer_epoch:
        return transaction.producer_epoch + 1, transaction.producer_epoch
    if expected.producer_epoch == transaction.last_producer_epoch and transaction.last_producer_epoch != NO_EPOCH:
        # A retry: no other producer has begun meanwhile, for that would have set the last epoch to -1.
        return transaction.producer_epoch, transaction.last_producer_epoch
    raise Refused(Code.PRODUCER_FENCED)


def fenced(transaction: Transaction, version: int, at_ms: int) -> Transaction:
    """An ongoing transaction is aborted, with an epoch that its producer does not have: another has begun, or its time
    is up. One epoch is always left for this."""
    assert transaction.producer_epoch < LAST_EPOCH
    bumps = version >= EPOCH_BUMP_VERSION
    return changed(
        transaction,
        TransactionStatus.PREPARE_ABORT,
        at_ms,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch if bumps else NO_EPOCH,
        client_version=EPOCH_BUMP_VERSION if bumps else 0,
    )


# --- partitions


def added(transaction: Transaction, command: AddPartitions, at_ms: int) -> Transaction | None:
    """With these partitions; None when they all were in it. Raises Refused."""
    _check_producer(transaction, command.producer)
    if transaction.is_prepared:
        raise Refused(Code.CONCURRENT_TRANSACTIONS)
    is_ongoing = transaction.status is TransactionStatus.ONGOING
    if is_ongoing and transaction.partitions.issuperset(command.partitions):
        return None
    return changed(
        transaction,
        TransactionStatus.ONGOING,
        at_ms,
        partitions=transaction.partitions.union(command.partitions),
        start_ms=transaction.start_ms if is_ongoing else at_ms,
        client_version=command.client_version,
    )


def verified(transaction: Transaction, command: VerifyPartitions) -> PartitionsVerified:
    """Raises Refused."""
    _check_producer(transaction, command.producer)
    if transaction.is_prepared:
        raise Refused(Code.CONCURRENT_TRANSACTIONS)
    known = transaction.partitions
    codes = (Code.NONE if one in known else Code.TRANSACTION_ABORTABLE for one in command.partitions)
    return PartitionsVerified(tuple(codes))


def _check_producer(transaction: Transaction, producer: ProducerIdentity) -> None:
    if producer.producer_id != transaction.producer_id:
        raise Refused(Code.INVALID_PRODUCER_ID_MAPPING)
    if producer.producer_epoch != transaction.producer_epoch:
        raise Refused(Code.PRODUCER_FENCED)


# --- EndTxn


def ended(transaction: Transaction, command: EndTransaction, at_ms: int) -> Ended:
    """Raises Refused (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS)."""
    if command.client_version < EPOCH_BUMP_VERSION:
        return _ended_at_one_epoch(transaction, command, at_ms)
    return _ended_with_new_epoch(transaction, command, at_ms)


def _ended_at_one_epoch(transaction: Transaction, command: EndTransaction, at_ms: int) -> Ended:
    """The protocol before KIP-890: the epoch stays. A retry after a lost answer looks like the next request, so one
    that arrives when another transaction is ongoing ends that one (F61): what version 2 is for."""
    _check_producer(transaction, command.producer)
    _check_repeated(transaction, command)
    if transaction.status is TransactionStatus.ONGOING:
        status = TransactionStatus.PREPARE_COMMIT if command.is_commit else TransactionStatus.PREPARE_ABORT
        return Ended(changed(transaction, status, at_ms, client_version=0), command.producer)
    if transaction.status is TransactionStatus.EMPTY:
        raise Refused(Code.INVALID_TXN_STATE)
    return Ended(None, command.producer)


def _check_repeated(transaction: Transaction, command: EndTransaction) -> None:
    """A transaction that has ended, or is ending, can only end the way it does."""
    commits = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
    aborts = (TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT)
    if transaction.status in (aborts if command.is_commit else commits):
        raise Refused(Code.INVALID_TXN_STATE)
    if transaction.is_prepared:
        raise Refused(Code.CONCURRENT_TRANSACTIONS)


def _ended_with_new_epoch(transaction: Transaction, command: EndTransaction, at_ms: int) -> Ended:
    """KIP-890: each end raises the epoch, so a retry is known by its epoch, and a late batch is fenced."""
    producer, was_bumped = command.producer, transaction.client_version >= EPOCH_BUMP_VERSION
    is_repeated = was_bumped and transaction.producer_epoch == producer.producer_epoch + 1
    is_complete = transaction.may_expire and transaction.status is not TransactionStatus.EMPTY
    is_repeated_over_ids = (
        was_bumped
        and is_complete
        and transaction.previous_producer_id == producer.producer_id
        and producer.producer_epoch == LAST_EPOCH_FOR_PRODUCERS
        and transaction.producer_epoch == 0
    )
    if producer.producer_id != transaction.producer_id and not is_repeated_over_ids:
        raise Refused(Code.INVALID_PRODUCER_ID_MAPPING)
    is_repeated = (is_repeated and (transaction.is_prepared or is_complete)) or is_repeated_over_ids
    is_current = producer.producer_epoch == transaction.producer_epoch
    if not is_repeated and (not is_current or (transaction.is_prepared and was_bumped)):
        raise Refused(Code.PRODUCER_FENCED)
    if transaction.is_prepared:  # whichever way it ends: with this epoch it is known to be a retry, and waits
        raise Refused(Code.CONCURRENT_TRANSACTIONS)
    if is_repeated:
        _check_repeated(transaction, command)
        return Ended(None, ProducerIdentity(transaction.producer_id, transaction.producer_epoch))
    is_ongoing = transaction.status is TransactionStatus.ONGOING
    if command.is_commit and not is_ongoing:
        raise Refused(Code.INVALID_TXN_STATE)
    return _prepared_with_new_epoch(transaction, command, at_ms, is_ongoing)


def _prepared_with_new_epoch(transaction: Transaction, command: EndTransaction, at_ms: int, is_ongoing: bool) -> Ended:
    """Also the abort of a transaction that has no partitions: its client cannot know whether it has any."""
    next_producer_id = NO_PRODUCER_ID
    if transaction.is_epoch_exhausted:
        if command.new_producer_id is None:
            return Ended(None, ProducerIdNeeded())
        next_producer_id = command.new_producer_id
    prepared = changed(
        transaction,
        TransactionStatus.PREPARE_COMMIT if command.is_commit else TransactionStatus.PREPARE_ABORT,
        at_ms,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch,
        next_producer_id=next_producer_id,
        partitions=transaction.partitions if is_ongoing else frozenset(),
        start_ms=transaction.start_ms if is_ongoing else at_ms,
        client_version=EPOCH_BUMP_VERSION,
    )
    done = completed(prepared, at_ms)
    return Ended(prepared, ProducerIdentity(done.producer_id, done.producer_epoch))


def completed(transaction: Transaction, at_ms: int) -> Transaction:
    """Every partition has its marker. Where the epochs were used up, the next producer id takes over now."""
    assert transaction.is_prepared
    status = TransactionStatus.COMPLETE_COMMIT if transaction.is_commit else TransactionStatus.COMPLETE_ABORT
    if transaction.next_producer_id == NO_PRODUCER_ID:
        return changed(transaction, status, at_ms, partitions=frozenset())
    return changed(
        transaction,
        status,
        at_ms,
        partitions=frozenset(),
        producer_id=transaction.next_producer_id,
        producer_epoch=0,
        last_producer_epoch=transaction.producer_epoch,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
