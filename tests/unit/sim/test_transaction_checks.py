"""The judge of transactions can find each of the faults that it is there for."""

from __future__ import annotations

import pytest

from chronik.core.records.batch import TRANSACTIONAL_BIT
from chronik.core.records.control import Marker, build_marker
from chronik.core.records.payload import KeyValue, build
from chronik.core.types import TopicPartition
from chronik.sim.story import Violation, WorldStory
from chronik.sim.transaction_checks import CommittedRecords, Outcome, SimTransaction, TransactionChecks

P, Q = TopicPartition("ledger", 0), TopicPartition("ledger", 1)


def checks(outcome: Outcome) -> tuple[TransactionChecks, SimTransaction]:
    """A transaction of three records in two partitions, and what its client knows of it."""
    known = TransactionChecks(WorldStory(lambda: 0.0))
    transaction = known.begin("t-1")
    known.sends(transaction, P, [b"a"])
    known.sends(transaction, P, [b"b"])
    known.sends(transaction, Q, [b"c"])
    transaction.outcome = outcome
    return known, transaction


ALL: dict[TopicPartition, list[bytes]] = {P: [b"a", b"b"], Q: [b"c"]}
NONE: dict[TopicPartition, list[bytes]] = {P: [], Q: []}
TORN: dict[TopicPartition, list[bytes]] = {P: [b"a", b"b"], Q: []}
PART: dict[TopicPartition, list[bytes]] = {P: [b"a"], Q: [b"c"]}
TURNED: dict[TopicPartition, list[bytes]] = {P: [b"b", b"a"], Q: [b"c"]}
TWICE: dict[TopicPartition, list[bytes]] = {P: [b"a", b"b", b"a"], Q: [b"c"]}


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        (Outcome.COMMITTED, ALL),
        (Outcome.ASKED, ALL),
        (Outcome.ASKED, NONE),
        (Outcome.ABORTED, NONE),
        (Outcome.OPEN, NONE),
    ],
)
def test_what_is_as_promised_is_in_order(outcome: Outcome, found: dict[TopicPartition, list[bytes]]) -> None:
    checks(outcome)[0].whole("test", found)


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        (Outcome.COMMITTED, NONE),
        (Outcome.COMMITTED, TORN),
        (Outcome.COMMITTED, PART),
        (Outcome.COMMITTED, TURNED),
        (Outcome.COMMITTED, TWICE),
        (Outcome.ASKED, TORN),
        (Outcome.ASKED, PART),
        (Outcome.ABORTED, ALL),
        (Outcome.ABORTED, TORN),
        (Outcome.OPEN, PART),
    ],
)
def test_a_torn_lost_doubled_or_aborted_transaction_is_found(
    outcome: Outcome, found: dict[TopicPartition, list[bytes]]
) -> None:
    with pytest.raises(Violation, match="t-1"):
        checks(outcome)[0].whole("test", found)


@pytest.mark.parametrize("outcome", [Outcome.OPEN, Outcome.ABORTED])
def test_a_record_of_an_open_or_aborted_transaction_is_found_when_it_is_read(outcome: Outcome) -> None:
    known, transaction = checks(outcome)
    with pytest.raises(Violation, match=outcome.value):
        known.gave("test", P, 0, b"a")
    transaction.outcome = Outcome.ASKED
    known.gave("test", P, 0, b"a")


def test_a_record_that_was_not_sent_changes_or_is_at_two_places_is_found() -> None:
    known, _ = checks(Outcome.COMMITTED)
    known.gave("test", P, 0, b"a")
    with pytest.raises(Violation, match="nothing sent"):
        known.gave("test", P, 1, b"x")
    with pytest.raises(Violation, match="and had"):
        known.gave("test", P, 0, b"b")
    with pytest.raises(Violation, match="at 0 and at 5"):
        known.gave("test", P, 5, b"a")


def test_a_reader_that_passed_over_a_part_of_a_transaction_is_found() -> None:
    known, _ = checks(Outcome.COMMITTED)
    known.reads.append(("early", {P: [b"a"], Q: []}))
    known.whole("test", ALL)
    known.reads.append(("torn", {P: [b"b"], Q: [b"c"]}))
    with pytest.raises(Violation, match="torn did not meet"):
        known.whole("test", ALL)


def test_transactions_that_have_read_of_each_other_are_found() -> None:
    known, first = checks(Outcome.COMMITTED)
    second = known.begin("t-2")
    second.outcome = Outcome.COMMITTED
    second.read.add(first.name)
    known.whole("test", ALL)
    first.read.add(second.name)
    with pytest.raises(Violation, match="read of each other"):
        known.whole("test", ALL)


def test_a_stable_offset_that_moves_back_is_found() -> None:
    known, _ = checks(Outcome.OPEN)
    known.stable("test", P, 5, known.stable_known(P, 1), 1)
    known.stable("test", P, 3, known.stable_known(P, 2), 2)  # the next leader, until it has settled in
    with pytest.raises(Violation, match="went back from 5 to 4"):
        known.stable("test", P, 4, known.stable_known(P, 1), 1)


@pytest.mark.parametrize("copies", [[b"a"], [b"a", b"b", b"b"], [b"b", b"a"], [b"a", b"x"]])
def test_a_copy_that_is_not_exactly_once_is_found(copies: list[bytes]) -> None:
    known, _ = checks(Outcome.COMMITTED)
    known.copied("test", [b"a", b"b"], [b"a", b"b"])
    with pytest.raises(Violation, match="the copy of 2 records"):
        known.copied("test", [b"a", b"b"], copies)


# --- logs


def written(offset: int, epoch: int, producer: int = 7) -> bytes:
    who = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": 0}
    return bytes(build([KeyValue(None, b"%d" % offset)], 0, base_offset=offset, attributes=TRANSACTIONAL_BIT, **who))


def marker(offset: int, epoch: int, producer: int = 7, *, is_commit: bool = True) -> bytes:
    batch = build_marker(Marker(is_commit, 0), producer, epoch, 0)
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def test_what_a_fenced_epoch_appends_is_found() -> None:
    known, _ = checks(Outcome.OPEN)
    known.log("test", P, {}, written(0, 0) + marker(1, 1) + written(2, 1) + written(3, 0, producer=8))
    with pytest.raises(Violation, match="epoch 0 of producer 7, behind epoch 1"):
        known.log("test", P, {}, written(0, 0) + marker(1, 1) + written(2, 0))


def test_an_epoch_with_two_outcomes_is_found() -> None:
    known, _ = checks(Outcome.OPEN)
    outcomes: dict[tuple[int, int], bool] = {}
    known.log("test", P, outcomes, written(0, 0) + marker(1, 1))
    known.log("test", Q, outcomes, written(0, 0) + marker(1, 1) + marker(2, 1))
    with pytest.raises(Violation, match="both committed and aborted"):
        known.log("test", Q, outcomes, marker(0, 1, is_commit=False))


def test_the_older_protocol_may_commit_and_abort_at_one_epoch() -> None:
    known, _ = checks(Outcome.OPEN)
    known.log("test", P, {}, written(0, 0) + marker(1, 0) + written(2, 0) + marker(3, 0, is_commit=False))


def test_a_reader_leaves_out_what_was_aborted_and_nothing_else() -> None:
    records = written(0, 0) + written(1, 0, producer=8) + marker(2, 0, is_commit=False) + written(3, 0) + marker(4, 0)
    got = CommittedRecords(records, [(7, 0)], 0)
    assert (got.found, got.next_offset) == ([(1, b"1"), (3, b"3")], 5)
    assert CommittedRecords(records, [(7, 0)], 2).found == [(3, b"3")]
    assert CommittedRecords(b"", [], 9).next_offset == 9
