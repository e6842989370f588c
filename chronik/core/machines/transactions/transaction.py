"""A transactional id: its producer, and the transaction it is in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID, TopicPartition

NO_TIME_MS = -1
LAST_EPOCH = 2**15 - 1
# The last epoch is kept for fencing: a producer is never given it.
LAST_EPOCH_FOR_PRODUCERS = LAST_EPOCH - 1


class TransactionStatus(IntEnum):
    """Kafka's states, with its numbers and (in `label`) its names."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # never in the log: an id that expires is forgotten by a tombstone
    PREPARE_EPOCH_FENCE = 7  # never here: Kafka has it in memory for a moment

    @property
    def label(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


_PREPARED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
# Which state may follow which. DEAD and PREPARE_EPOCH_FENCE are not entered.
FOLLOWS = {
    TransactionStatus.EMPTY: (
        TransactionStatus.EMPTY,
        TransactionStatus.ONGOING,
        TransactionStatus.PREPARE_ABORT,  # a client of transaction version 2 may abort what it has not begun
    ),
    TransactionStatus.ONGOING: (TransactionStatus.ONGOING, *_PREPARED),
    TransactionStatus.PREPARE_COMMIT: (TransactionStatus.COMPLETE_COMMIT,),
    TransactionStatus.PREPARE_ABORT: (TransactionStatus.COMPLETE_ABORT,),
    TransactionStatus.COMPLETE_COMMIT: (
        TransactionStatus.EMPTY,
        TransactionStatus.ONGOING,
        TransactionStatus.PREPARE_ABORT,
    ),
    TransactionStatus.COMPLETE_ABORT: (
        TransactionStatus.EMPTY,
        TransactionStatus.ONGOING,
        TransactionStatus.PREPARE_ABORT,
    ),
}


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a coordinator knows of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME_MS
    last_update_ms: int = NO_TIME_MS
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # given to the producer when the epochs of this one were used up
    # A retry of InitProducerId names it (KIP-360). Kafka has no place for it in its record either.
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0  # transaction.version of the client that wrote this state: 2 raises the epoch at each end

    @property
    def is_prepared(self) -> bool:
        """It is decided how the transaction ends, and markers are on their way."""
        return self.status in _PREPARED

    @property
    def is_commit(self) -> bool:
        return self.status is TransactionStatus.PREPARE_COMMIT

    @property
    def has_committed(self) -> bool:
        return self.status is TransactionStatus.COMPLETE_COMMIT

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH_FOR_PRODUCERS

    @property
    def may_expire(self) -> bool:
        return self.status in (
            TransactionStatus.EMPTY,
            TransactionStatus.COMPLETE_COMMIT,
            TransactionStatus.COMPLETE_ABORT,
        )
