"""What compaction makes of the batches of transactions, one after the other."""

from __future__ import annotations

from chronik.core.log.aborted import AbortedTransaction
from chronik.core.log.cleaned_transactions import BatchFate, CleanedTransactions
from chronik.core.records.batch import TRANSACTIONAL_BIT, read_header, stamp
from chronik.core.records.control import Marker, build_marker
from tests.unit.core.log.logs import NOW_MS, batch_of

ABORTED = AbortedTransaction(1, 10, 12, 13)


def written(offset: int, producer_id: int = 1) -> bytearray:
    batch = batch_of(producer_id=producer_id, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL_BIT)
    stamp(batch, offset, 0)
    return batch


def marker(offset: int, *, is_commit: bool, producer_id: int = 1) -> bytearray:
    batch = build_marker(Marker(is_commit, 0), producer_id, 0, NOW_MS)
    stamp(batch, offset, 0)
    return batch


def fates(transactions: CleanedTransactions, *batches: bytearray) -> list[BatchFate]:
    return [transactions.meets(read_header(batch), bytes(batch)) for batch in batches]


def test_what_an_aborted_transaction_wrote_goes_and_its_marker_stays_with_its_entry() -> None:
    transactions = CleanedTransactions([ABORTED])

    met = fates(transactions, written(9), written(10), written(11, 2), marker(12, is_commit=False), written(13))

    assert met == [BatchFate.COUNTS, BatchFate.GONE, BatchFate.COUNTS, BatchFate.MARKER, BatchFate.COUNTS]
    assert transactions.take_kept() == [ABORTED]
    assert transactions.take_kept() == []


def test_a_marker_of_which_nothing_is_left_is_idle_and_has_no_entry_any_more() -> None:
    transactions = CleanedTransactions([ABORTED])

    met = fates(transactions, marker(12, is_commit=False), marker(14, is_commit=True, producer_id=2))

    assert met == [BatchFate.IDLE_MARKER, BatchFate.IDLE_MARKER]
    assert transactions.take_kept() == []


def test_a_marker_that_holds_an_epoch_stays() -> None:
    transactions = CleanedTransactions([], frozenset({(1, 0)}))
    assert fates(transactions, marker(12, is_commit=True)) == [BatchFate.MARKER]


def test_batches_without_a_transaction_are_judged_by_their_keys() -> None:
    plain = batch_of()
    assert fates(CleanedTransactions([ABORTED]), plain) == [BatchFate.COUNTS]
    assert not CleanedTransactions([ABORTED]).is_aborted(read_header(plain))
    assert CleanedTransactions([ABORTED]).is_aborted(read_header(written(10)))
    assert not CleanedTransactions([ABORTED]).is_aborted(read_header(written(13)))
