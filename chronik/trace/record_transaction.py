"""What became of a record's transaction, and whether readers of what is committed are given the record. Pure.

How a transaction ended is final wherever a marker says it. That one is open is believed of the leader alone, and only
where no other node can have taken its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from chronik.trace.events import AnyEvent, TransactionMarked, TransactionPartitionAdded, TransactionSeen
from chronik.trace.inspections import RecordPlace, RecordView, TransactionFate


class TransactionTold(msgspec.Struct, frozen=True):
    """A record's transaction."""

    fate: TransactionFate
    transactional_id: str | None  # None: not known
    producer_id: int
    producer_epoch: int
    first_offset: int  # of its first record in this partition; -1: not known
    marker_offset: int  # -1: there is none, or it is not known where
    marked_us: int | None  # when the marker was written
    is_marker: bool  # the record is that marker
    coordinator_epoch: int  # of the coordinator that decided; -1: not known
    words: str


def transaction_of(
    leading: RecordView | None, is_sure: bool, events: Iterable[AnyEvent], names: Mapping[int, str]
) -> TransactionTold | None:
    """None where the record is in none, or is not there. `is_sure`: no other node can lead by now. `names`: by
    producer id, as coordinators tell them."""
    seen = None if leading is None else leading.transaction
    if leading is None or seen is None:
        return None
    fate, reason = seen.fate, seen.reason
    if fate is TransactionFate.OPEN and not is_sure:
        fate = TransactionFate.NOT_KNOWN
        reason = f"it is open as far as node {leading.node} knows, and another node may lead the partition"
    name, marked = names.get(seen.producer_id), None
    marker = leading.topic, leading.partition, seen.marker_offset
    for event in events:
        if getattr(event, "producer_id", None) != seen.producer_id:
            continue
        if isinstance(event, TransactionPartitionAdded | TransactionSeen):
            name = event.transactional_id
        elif isinstance(event, TransactionMarked) and (event.topic, event.partition, event.offset) == marker:
            marked = event
    return TransactionTold(
        fate,
        name,
        seen.producer_id,
        seen.producer_epoch,
        seen.first_offset,
        seen.marker_offset,
        None if marked is None else marked.at_us,
        seen.is_marker,
        seen.coordinator_epoch if marked is None else marked.coordinator_epoch,
        _words(fate, name, seen.marker_offset, seen.first_offset, seen.is_marker, reason),
    )


def _words(
    fate: TransactionFate, name: str | None, marker_offset: int, first_offset: int, is_marker: bool, reason: str | None
) -> str:
    whose = "" if name is None else f"of {name}, "
    if is_marker:
        how = f"the marker that says: {fate}" if reason is None else f"a marker: {reason}"
        return f"{whose}{how}"
    if fate is TransactionFate.OPEN:
        return f"{whose}open, from offset {first_offset} on"
    if fate is TransactionFate.NOT_KNOWN:
        return f"{whose}not known: {reason}"
    where = f", by the marker at offset {marker_offset}" if marker_offset >= 0 else ""
    return f"{whose}{fate}{where}" + (f" ({reason})" if reason else "")


def is_readable_committed(
    offset: int, leading: RecordView | None, is_sure: bool, transaction: TransactionTold | None
) -> bool | None:
    """Whether a consumer with read_committed is given it; None: not known."""
    if leading is None or leading.place is not RecordPlace.HERE or leading.last_stable_offset < 0:
        return None
    if transaction is not None and (transaction.is_marker or transaction.fate is TransactionFate.ABORTED):
        return False
    if offset < leading.last_stable_offset:
        is_undecided = transaction is not None and transaction.fate is TransactionFate.NOT_KNOWN
        return None if is_undecided else True
    return False if is_sure else None


def committed_words(is_readable: bool | None, transaction: TransactionTold | None) -> str:
    """A sentence for the summary of a record that is below the watermark; empty where there is nothing to add."""
    if transaction is not None and transaction.is_marker:
        return " It is the marker of a transaction, which no consumer is given."
    if transaction is not None and transaction.fate is TransactionFate.ABORTED:
        return " Its transaction was aborted: consumers with read_committed are not given it."
    if is_readable is not False:
        return ""
    if transaction is not None and transaction.fate is TransactionFate.OPEN:
        return " Its transaction is open: consumers with read_committed wait for its end."
    return " A transaction that began before it is open: consumers with read_committed wait for its end."
