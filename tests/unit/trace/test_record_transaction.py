"""A record's transaction in its story: what became of it, and whether readers of what is committed are given it."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.trace.events import TransactionMarked, TransactionPartitionAdded, TransactionSeen
from chronik.trace.inspections import RecordPlace, TransactionFate, TransactionView
from chronik.trace.story import KnownRecord, RecordStory, tell
from tests.unit.trace.test_story import OFFSET, PARTITION, TOPIC, look

ID = "billing-1"
OPEN = TransactionView(TransactionFate.OPEN, 7, 0, first_offset=40)
ABORTED = TransactionView(TransactionFate.ABORTED, 7, 0, first_offset=40, marker_offset=46)
COMMITTED = TransactionView(TransactionFate.COMMITTED, 7, 0, marker_offset=46)
MARKER = TransactionView(TransactionFate.COMMITTED, 7, 0, marker_offset=OFFSET, coordinator_epoch=2, is_marker=True)


def story(transaction: TransactionView | None, known: dict[str, Any] | None = None, **fields: Any) -> RecordStory:
    looks = [look(node, transaction=transaction, **fields) for node in (1, 2, 3)]
    return tell(TOPIC, PARTITION, OFFSET, KnownRecord(**{"looks": looks, **(known or {})}))


@pytest.mark.parametrize(
    ("transaction", "stable", "words", "is_readable", "ending"),
    [
        (COMMITTED, 50, "committed, by the marker at offset 46", True, "3 of 3 replicas."),
        (ABORTED, 50, "aborted, by the marker at offset 46", False, "consumers with read_committed are not given it."),
        (OPEN, 40, "open, from offset 40 on", False, "Its transaction is open: consumers with read_committed wait for"),
        (MARKER, 50, "the marker that says: committed", False, "which no consumer is given."),
        (None, 41, None, False, "A transaction that began before it is open: consumers with read_committed wait"),
        (None, 50, None, True, "3 of 3 replicas."),
        (COMMITTED, 41, "committed, by the marker at offset 46", False, "A transaction that began before it is open"),
    ],
)
def test_the_fate_and_who_is_given_it(
    transaction: TransactionView | None, stable: int, words: str | None, is_readable: bool, ending: str
) -> None:
    told = story(transaction, last_stable_offset=stable)

    assert (None if told.transaction is None else told.transaction.words) == words
    assert told.is_readable_committed is is_readable
    assert ending in told.summary


def test_its_id_and_the_time_of_its_marker_come_from_coordinators_and_the_trace() -> None:
    marked = TransactionMarked(99, 1, TOPIC, PARTITION, 7, 1, False, 46, 4, 3)
    elsewhere = TransactionMarked(98, 1, TOPIC, PARTITION + 1, 7, 1, False, 46, 5, 3)
    added = TransactionPartitionAdded(90, 2, TOPIC, PARTITION, ID, 7, 0)
    told = story(ABORTED, {"events": [added, elsewhere, marked]}).transaction
    assert told is not None
    assert (told.transactional_id, told.marked_us, told.coordinator_epoch) == (ID, 99, 4)
    assert told.words == f"of {ID}, aborted, by the marker at offset 46"

    told = story(ABORTED, {"transactional_ids": {7: ID, 8: "another"}}).transaction
    assert told is not None
    assert (told.transactional_id, told.marked_us) == (ID, None)

    seen = TransactionSeen(95, 2, ID, 7, 0, "Ongoing", 60, 5, 5, (), ())
    told = story(OPEN, {"events": [seen]}, last_stable_offset=40).transaction
    assert told is not None
    assert told.transactional_id == ID


def test_that_it_is_open_is_not_believed_where_another_node_may_lead() -> None:
    looks = [look(1, transaction=OPEN, last_stable_offset=40)]
    told = tell(TOPIC, PARTITION, OFFSET, KnownRecord(looks=looks, silent={2: "no answer", 3: "no answer"}))

    assert told.transaction is not None
    assert told.transaction.fate is TransactionFate.NOT_KNOWN
    assert "open as far as node 1 knows" in told.transaction.words
    assert told.is_readable_committed is None


def test_that_it_was_aborted_is_final_whichever_node_says_so() -> None:
    looks = [look(2, transaction=ABORTED, is_leader=False)]
    told = tell(TOPIC, PARTITION, OFFSET, KnownRecord(looks=looks, silent={1: "no answer"}))

    assert told.transaction is not None
    assert told.transaction.fate is TransactionFate.ABORTED
    assert told.is_readable_committed is False


def test_of_a_record_that_is_not_there_nothing_is_said() -> None:
    told = story(None, place=RecordPlace.DELETED, batch=None)
    assert (told.transaction, told.is_readable_committed) == (None, None)
