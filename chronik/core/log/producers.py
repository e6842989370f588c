"""What each producer last wrote to a partition: the memory behind idempotence (KIP-98).

`check` says what a batch is, `advance` takes it in; the log calls both around one write, so that no other batch
comes between. The last five batches of a producer are remembered, because that many may be under way at once: a
retry of any of them is answered with its first offsets.

A producer is forgotten when it has written nothing here for so long, by the clock of this node: the times in its
records are its own business, and a backfill's are old. After a restart or a change of leaders the time begins anew.
Where there are too many, those go that have been silent longest: a retry of theirs would be written twice.

Of a producer nothing is known of, any batch may be the first. Unless an earlier one was put off (`put_off`): those
that were under way behind it must not overtake it.

A transaction begins with its first batch here and ends with its marker. Before that first batch its coordinator is
asked whether the partition is part of the transaction (KIP-890), and meanwhile the answer may become untrue: so the
question leaves a guard, a marker takes it away, and the batch is taken only with the guard that is still there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import nsmallest
from typing import NamedTuple

from chronik.core.errors import Code, Refused
from chronik.core.log.transactions import EndedTransaction, UndecidedTransactions
from chronik.core.records.batch import TRANSACTIONAL_BIT, BatchHeader
from chronik.core.records.control import Marker
from chronik.core.types import NO_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, UNKNOWN_OFFSET

BATCHES_KEPT = 5
# Of a partition. Each takes about a kilobyte, and any client can have as many ids as it asks for.
PRODUCERS_KEPT = 10_000
PUT_OFF_KEPT = 1000  # producers; each is kept until it is heard of again, and some never are
GUARDS_KEPT = 10_000  # of a partition; one that is dropped has its producer ask again
EPOCH_BUMPED_FROM = 2  # transaction version: every end of a transaction raises the producer's epoch
SEQUENCE_MASK = 0x7FFFFFFF  # after 2^31 - 1 comes 0


class WrittenBatch(NamedTuple):
    """A batch in the log, as its producer knows it."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Next:
    """The batch that is due."""

    __slots__ = ()


class Duplicate(NamedTuple):
    """A batch that is in the log already."""

    base_offset: int
    last_offset: int
    timestamp: int


NEXT = Next()


class VerificationGuard:
    """A transaction's coordinator is asked about this producer. Of several questions at a time there is one guard."""

    __slots__ = ("epoch", "is_epoch_new", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, is_epoch_new: bool = False) -> None:
        self.epoch = epoch
        self.is_epoch_new = is_epoch_new  # of transaction version 2: each transaction begins with sequence 0
        self.lowest_sequence = sequence  # of the batches that came with the questions: that one must be the first

    def joined_by(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence


class ProducerState:
    """One producer's state in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "has_written",
        "is_recalled",
        "last_timestamp",
        "producer_id",
        "silent_since_ms",
        "transaction_start_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP  # of its records, as it says itself
        self.has_written = True  # since it was last asked who is silent; or it was just loaded
        self.silent_since_ms = 0  # by this node's monotonic clock; counts while it has not written
        self.transaction_start_offset = UNKNOWN_OFFSET
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_KEPT)
        # A snapshot of Kafka's has the last batch only. Until the others are recalled from the log, a retry may look
        # like a gap.
        self.is_recalled = True

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """The producers of one partition."""

    __slots__ = ("_by_id", "_guards", "_kept_max", "_put_off", "undecided")

    def __init__(self, producers: Iterable[ProducerState] = (), kept_max: int = PRODUCERS_KEPT) -> None:
        self._kept_max = kept_max
        self._by_id = {producer.producer_id: producer for producer in producers}
        self.undecided = UndecidedTransactions(
            (producer.transaction_start_offset, producer.producer_id)
            for producer in self._by_id.values()
            if producer.transaction_start_offset >= 0
        )
        self._guards: dict[int, VerificationGuard] = {}
        self._put_off: dict[int, tuple[int, int]] = {}  # epoch and sequence of what an unknown producer must send again

    def __len__(self) -> int:
        return len(self._by_id)

    def states(self) -> list[ProducerState]:
        """All of them, by id."""
        return [self._by_id[producer_id] for producer_id in sorted(self._by_id)]

    def get(self, producer_id: int) -> ProducerState | None:
        return self._by_id.get(producer_id)

    def check(self, header: BatchHeader) -> Next | Duplicate:
        """What this batch is. Changes nothing."""
        producer = self._by_id.get(header.producer_id)
        # Nothing known (new, or expired): any sequence is a beginning, as in Kafka since 2.0.
        if producer is None:
            self.check_not_overtaking(header)
            return NEXT
        sequence = header.base_sequence
        if header.producer_epoch != producer.epoch:
            self._check_new_epoch(producer, header)
        elif sequence != (producer.last_sequence + 1) & SEQUENCE_MASK:
            for written in producer.batches:
                if written.first_sequence == sequence and written.last_sequence == header.last_sequence:
                    return Duplicate(written.base_offset, written.last_offset, written.timestamp)
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer.producer_id} sent sequence {sequence} after {producer.last_sequence}",
            )
        if producer.transaction_start_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise Refused(Code.INVALID_TXN_STATE, f"producer {producer.producer_id} has a transaction open")
        return NEXT

    # --- transactions

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        producer = self._by_id.get(producer_id)
        return producer is not None and producer.transaction_start_offset >= 0 and producer.epoch == epoch

    def begin_verification(self, header: BatchHeader, *, is_epoch_new: bool = False) -> VerificationGuard | None:
        """The guard to append this transactional batch with, once its coordinator has confirmed it. None when the
        transaction has begun here already, and there is nothing to ask. `is_epoch_new`: the producer has a new epoch
        with each transaction (version 2)."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self.has_open_transaction(producer_id, epoch):
            return None
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(
                epoch, header.base_sequence, is_epoch_new=is_epoch_new
            )
            if len(self._guards) > GUARDS_KEPT:
                del self._guards[next(iter(self._guards))]
        else:
            guard.joined_by(epoch, header.base_sequence)
        return guard

    def check_verified(self, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Refuse a transactional batch that would begin a transaction which its coordinator has not confirmed, or has
        ended since it did."""
        producer_id = header.producer_id
        if self.has_open_transaction(producer_id, header.producer_epoch):
            return
        if guard is None or self._guards.get(producer_id) is not guard:
            raise Refused(Code.INVALID_TXN_STATE, f"producer {producer_id} has no transaction open for this partition")
        if guard.is_epoch_new and header.base_sequence > 0 and producer_id not in self._by_id:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"a transaction of producer {producer_id} begins with sequence {header.base_sequence}, not 0",
            )
        if header.base_sequence > guard.lowest_sequence:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {header.base_sequence} after {guard.lowest_sequence}, which was "
                "not taken yet",
            )

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Refuse what an earlier epoch wrote: that producer was fenced."""
        producer = self._by_id.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise _fenced(producer, epoch)

    def check_marker(self, producer_id: int, epoch: int, marker: Marker, transaction_version: int) -> bool:
        """Whether this marker is to be written; refused when a later epoch of the producer or of its coordinator is
        known. False when its transaction has ended already.

        With transaction version 2 each transaction has an epoch of its own, and its marker the next one: then one with
        the epoch of the transaction that is open ended the one before, and has come again (KIP-1228)."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            return True
        if epoch < producer.epoch:
            raise _fenced(producer, epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise Refused(
                Code.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch}, and {producer.coordinator_epoch} is known",
            )
        if transaction_version >= EPOCH_BUMPED_FROM and epoch == producer.epoch:
            if producer.transaction_start_offset >= 0:
                raise _fenced(producer, epoch)
            return False
        return True

    # --- batches that were not taken

    def put_off(self, header: BatchHeader) -> None:
        """A batch is refused that its producer will send again: too few are in sync, or the disk is full. Kafka takes
        the next one of a new producer then, and the producer has to choose between disorder and loss."""
        producer_id, put_off = header.producer_id, self._put_off
        if producer_id < 0 or producer_id in self._by_id:
            return
        epoch, sequence = put_off.get(producer_id, (NO_EPOCH, 0))
        if epoch != header.producer_epoch or header.base_sequence < sequence:
            put_off[producer_id] = header.producer_epoch, header.base_sequence
            if len(put_off) > PUT_OFF_KEPT:
                del put_off[next(iter(put_off))]

    def check_not_overtaking(self, header: BatchHeader) -> None:
        """Refuse what follows on a batch that was put off here and has not come to this log since."""
        epoch, sequence = self._put_off.get(header.producer_id, (NO_EPOCH, 0))
        if epoch == header.producer_epoch and header.base_sequence > sequence:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence}, and {sequence} was not taken yet",
            )

    def _check_new_epoch(self, producer: ProducerState, header: BatchHeader) -> None:
        if header.producer_epoch < producer.epoch:
            raise _fenced(producer, header.producer_epoch)
        if header.base_sequence != 0:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"a new epoch of producer {producer.producer_id} begins with sequence {header.base_sequence}, not 0",
            )

    def advance(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Take in a batch that is in the log now. Cannot fail: the write has happened."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            producer = self._add(header)
            self._put_off.pop(header.producer_id, None)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
            producer.is_recalled = True
        last_offset = base_offset + header.last_offset_delta
        producer.batches.append(
            WrittenBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp)
        )
        producer.last_timestamp = timestamp
        producer.has_written = True
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_start_offset < 0:
            producer.transaction_start_offset = base_offset
            self.undecided.begin(base_offset, header.producer_id)
            self._guards.pop(header.producer_id, None)

    def end_transaction(
        self, header: BatchHeader, marker: Marker, marker_offset: int, transaction_version: int = 0
    ) -> EndedTransaction | None:
        """Take in a marker that is in the log now. Returns what it ended; None when nothing was written here."""
        guard = self._guards.get(header.producer_id)
        # A marker of version 2 has the epoch of the next transaction. Its producer does not wait for the marker: the
        # first batch may be here before, and is confirmed when the markers are everywhere.
        is_of_the_next = transaction_version >= EPOCH_BUMPED_FROM and guard and guard.epoch >= header.producer_epoch
        if not is_of_the_next:
            self._guards.pop(header.producer_id, None)
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            producer = self._add(header)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
            producer.is_recalled = True
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        producer.has_written = True
        first_offset, producer.transaction_start_offset = producer.transaction_start_offset, UNKNOWN_OFFSET
        if first_offset < 0:
            return None
        stable_offset = self.undecided.end(first_offset, marker_offset)
        return EndedTransaction(header.producer_id, first_offset, marker_offset, stable_offset, marker.is_commit)

    def _add(self, header: BatchHeader) -> ProducerState:
        if len(self._by_id) >= self._kept_max:
            # A tenth at once: to look for the longest silent at each new one would cost more the more there are.
            idle = (producer for producer in self._by_id.values() if producer.transaction_start_offset < 0)
            for producer in nsmallest(max(self._kept_max // 10, 1), idle, key=_last_offset):
                del self._by_id[producer.producer_id]
        added = self._by_id[header.producer_id] = ProducerState(header.producer_id, header.producer_epoch)
        return added

    def expire(self, monotonic_ms: int, expiration_ms: int) -> int:
        """Forget those that have written nothing for so long, and say how many. An open transaction keeps its producer.

        Asked now and then: one that has written since the last time is silent from now on."""
        gone: list[int] = []
        for producer in self._by_id.values():
            if producer.has_written:
                producer.has_written, producer.silent_since_ms = False, monotonic_ms
            elif producer.transaction_start_offset < 0 and monotonic_ms - producer.silent_since_ms >= expiration_ms:
                gone.append(producer.producer_id)
        for producer_id in gone:
            del self._by_id[producer_id]
        return len(gone)


def _fenced(producer: ProducerState, epoch: int) -> Refused:
    return Refused(
        Code.INVALID_PRODUCER_EPOCH, f"producer {producer.producer_id} has epoch {producer.epoch}, this is of {epoch}"
    )


def _last_offset(producer: ProducerState) -> int:
    """Where its last batch is: the earlier, the longer it has been silent."""
    return producer.batches[-1].last_offset if producer.batches else UNKNOWN_OFFSET
