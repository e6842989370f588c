"""What compaction makes of transactions.

What an aborted one wrote goes. A marker stays as long as anything is left of what its transaction wrote: without it a
consumer would leave out what comes next of an aborted producer, and a copy of the log would take the transaction for
open. When nothing is left, the marker goes `delete.retention.ms` later, as tombstones do, so that a reader that has met
the data has time to meet the marker. The last marker of a producer that has written nothing since stays for good:
from it a node that has lost its snapshots knows which epochs are fenced. (Kafka empties that one too.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum

from chronik.core.log.aborted import AbortedTransaction
from chronik.core.records.batch import BatchHeader
from chronik.core.records.control import read_marker


class BatchFate(Enum):
    """What becomes of a batch for the sake of its transaction."""

    COUNTS = 0  # its records are judged by their keys
    GONE = 1  # its transaction was aborted, or nothing is in it
    MARKER = 2  # it ends a transaction of which something is left, or holds a producer's epoch
    IDLE_MARKER = 3  # it ends one of which nothing is left


class CleanedTransactions:
    """The transactions in the batches to be cleaned, met in order from the start of the log."""

    __slots__ = ("_by_producer", "_epochs_held", "_kept", "_with_data")

    def __init__(
        self, aborted: Iterable[AbortedTransaction] = (), epochs_held: frozenset[tuple[int, int]] = frozenset()
    ) -> None:
        """`epochs_held`: producer and epoch of those of which the log has markers only."""
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for entry in sorted(aborted, key=lambda entry: entry.first_offset):
            self._by_producer.setdefault(entry.producer_id, []).append(entry)
        self._epochs_held = epochs_held
        self._with_data: set[int] = set()  # producers whose transaction is under way where we are, and left something
        self._kept: list[AbortedTransaction] = []

    def _aborted_at(self, header: BatchHeader) -> AbortedTransaction | None:
        entries = self._by_producer.get(header.producer_id, ())
        place = bisect_right(entries, header.base_offset, key=lambda entry: entry.first_offset) - 1
        return entries[place] if place >= 0 and header.base_offset <= entries[place].last_offset else None

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this batch is data of an aborted transaction."""
        return header.is_transactional and not header.is_control and self._aborted_at(header) is not None

    def meets(self, header: BatchHeader, batch: bytes) -> BatchFate:
        """The next batch."""
        if header.is_control:
            return self._meets_control(header, batch)
        if not header.is_transactional:
            return BatchFate.COUNTS
        self._with_data.add(header.producer_id)
        return BatchFate.COUNTS if self._aborted_at(header) is None else BatchFate.GONE

    def _meets_control(self, header: BatchHeader, batch: bytes) -> BatchFate:
        if header.record_count == 0:
            return BatchFate.GONE  # emptied, and kept for its place only
        if header.producer_id < 0 or read_marker(batch) is None:
            return BatchFate.MARKER  # of another kind, of which nothing is known here
        entry = self._aborted_at(header)
        if header.producer_id in self._with_data:
            self._with_data.discard(header.producer_id)
            if entry is not None:
                self._kept.append(entry)
            return BatchFate.MARKER
        is_held = (header.producer_id, header.producer_epoch) in self._epochs_held
        return BatchFate.MARKER if is_held else BatchFate.IDLE_MARKER

    def take_kept(self) -> list[AbortedTransaction]:
        """The aborted transactions that were met since this was last asked, and of which something is left."""
        kept, self._kept = self._kept, []
        return kept
