"""Idempotent producers: a retry gets its first offsets, a gap is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Code, Refused
from chronik.core.log.producers import PUT_OFF_KEPT, Duplicate, Next, Producers
from chronik.core.records.batch import TRANSACTIONAL_BIT, BatchHeader
from chronik.core.records.control import Marker
from tests.unit.core.log.logs import batch_of, header_of


def header(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, attributes: int = 0) -> BatchHeader:
    batch = batch_of(
        count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, attributes=attributes, time_ms=1000
    )
    return header_of(batch)


def producers_with(*batches: BatchHeader) -> Producers:
    """Offsets are given from 0 on."""
    producers, offset = Producers(), 0
    for batch in batches:
        producers.advance(batch, offset, batch.max_timestamp)
        offset += batch.last_offset_delta + 1
    return producers


def refusal_of(producers: Producers, batch: BatchHeader) -> Code:
    with pytest.raises(Refused) as refused:
        producers.check(batch)
    return refused.value.code


def test_the_next_sequence_is_next() -> None:
    assert isinstance(producers_with(header(0, 3)).check(header(3)), Next)


def test_a_retry_is_a_duplicate_with_its_first_offsets() -> None:
    producers = producers_with(header(0, 3), header(3, 2))
    assert producers.check(header(3, 2)) == Duplicate(3, 4, 1000)
    assert producers.check(header(0, 3)) == Duplicate(0, 2, 1000)


def test_five_batches_are_remembered_and_a_sixth_is_not() -> None:
    producers = producers_with(*(header(number) for number in range(6)))
    assert [producers.check(header(number)) for number in range(1, 6)] == [Duplicate(n, n, 1000) for n in range(1, 6)]
    assert refusal_of(producers, header(0)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused() -> None:
    assert refusal_of(producers_with(header(0)), header(2)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_overlaps_a_known_one_is_no_duplicate() -> None:
    assert refusal_of(producers_with(header(0, 3)), header(0, 2)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert isinstance(Producers().check(header(42)), Next)


def test_what_is_under_way_behind_a_batch_that_was_put_off_does_not_overtake_it() -> None:
    producers = Producers()
    producers.put_off(header(0, 2))
    producers.put_off(header(2, 1))

    assert refusal_of(producers, header(2, 1)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal_of(producers, header(3)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(producers.check(header(0, 2)), Next)
    assert isinstance(producers.check(header(3, producer_id=8)), Next)
    assert isinstance(producers.check(header(0, epoch=1)), Next)  # it gave up what was put off

    producers.advance(header(0, 2), 0, 1000)
    assert isinstance(producers.check(header(2, 1)), Next)
    forget_all(producers)
    assert isinstance(producers.check(header(9)), Next)


def test_a_batch_that_was_put_off_of_a_known_producer_is_still_due() -> None:
    producers = producers_with(header(0, 3))

    producers.put_off(header(3))

    assert refusal_of(producers, header(4)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(producers.check(header(3)), Next)


def test_producers_that_were_put_off_and_never_came_back_are_forgotten_one_day() -> None:
    producers = Producers()
    for producer_id in range(PUT_OFF_KEPT + 1):
        producers.put_off(header(0, producer_id=producer_id))

    assert isinstance(producers.check(header(5, producer_id=0)), Next)
    assert refusal_of(producers, header(5, producer_id=1)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    assert refusal_of(producers_with(header(0, epoch=3)), header(1, epoch=2)) == Code.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    producers = producers_with(header(0, epoch=3))
    assert refusal_of(producers, header(1, epoch=4)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(producers.check(header(0, epoch=4)), Next)


def test_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    producers = producers_with(header(0, epoch=3), header(1, epoch=3), header(0, epoch=4))
    assert producers.check(header(0, epoch=4)) == Duplicate(2, 2, 1000)
    assert isinstance(producers.check(header(1, epoch=4)), Next)


def test_sequences_wrap_after_the_largest_int() -> None:
    producers = producers_with(header(2**31 - 2, 4))  # the last two have 0 and 1
    assert isinstance(producers.check(header(2)), Next)
    assert producers.check(header(2**31 - 2, 4)) == Duplicate(0, 3, 1000)
    at_the_end = producers_with(header(2**31 - 1))
    assert isinstance(at_the_end.check(header(0)), Next)


def test_checking_changes_nothing() -> None:
    producers = producers_with(header(0))
    producers.check(header(1))
    assert isinstance(producers.check(header(1)), Next)


def forget_all(producers: Producers) -> None:
    producers.expire(0, 1)
    producers.expire(1, 1)
    assert len(producers) == 0


def test_a_silent_producer_is_forgotten_and_may_begin_anywhere_again() -> None:
    producers = producers_with(header(0, producer_id=1), header(0, producer_id=2))
    assert producers.expire(1000, expiration_ms=5000) == 0
    producers.advance(header(1, producer_id=2), 2, 5000)
    assert producers.expire(5999, expiration_ms=5000) == 0
    assert producers.expire(6000, expiration_ms=5000) == 1
    assert [producer.producer_id for producer in producers.states()] == [2]
    assert isinstance(producers.check(header(9, producer_id=1)), Next)


def test_a_producer_that_writes_is_kept_whatever_time_its_records_have() -> None:
    producers = Producers()
    for sequence, now_ms in enumerate(range(0, 100_000, 1000)):
        producers.advance(header(sequence), sequence, timestamp=5)  # of 1970
        assert producers.expire(now_ms, expiration_ms=2000) == 0
    assert isinstance(producers.check(header(99)), Duplicate)


def test_of_too_many_producers_those_go_that_have_been_silent_longest() -> None:
    producers = Producers(kept_max=100)
    for number in range(100):
        producers.advance(header(0, producer_id=number), number, 1000)
    producers.advance(header(1, producer_id=0), 100, 1000)

    producers.advance(header(0, producer_id=100), 101, 1000)

    assert [producer.producer_id for producer in producers.states()] == [0, *range(11, 101)]
    for number in range(101, 1000):
        producers.advance(header(0, producer_id=number), number, 1000)
        assert len(producers) <= 100


def test_an_open_transaction_keeps_its_producer_and_takes_only_its_own() -> None:
    producers = producers_with(header(0, attributes=TRANSACTIONAL_BIT))
    assert producers.expire(0, expiration_ms=1) == 0
    assert producers.expire(10**9, expiration_ms=1) == 0
    assert refusal_of(producers, header(1)) == Code.INVALID_TXN_STATE
    producers.end_transaction(header(1), Marker(is_commit=True, coordinator_epoch=5), 1)
    assert isinstance(producers.check(header(1)), Next)
    state = producers.states()[0]
    assert (state.transaction_start_offset, state.coordinator_epoch) == (-1, 5)


# --- against a model: a producer is the list of everything it ever wrote


@dataclass
class Model:
    epoch: int = -1
    written: list[tuple[int, int, int]] = field(default_factory=list)  # first sequence, count, base offset

    def outcome(self, epoch: int, sequence: int, count: int) -> object:
        if self.epoch == -1:
            return Next
        if epoch < self.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if epoch > self.epoch:
            return Next if sequence == 0 else Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        first, length, _ = self.written[-1]
        if sequence == (first + length) % 2**31:
            return Next
        for known_first, known_count, base_offset in self.written[-5:]:
            if (known_first, known_count) == (sequence, count):
                return Duplicate(base_offset, base_offset + count - 1, 1000)
        return Code.OUT_OF_ORDER_SEQUENCE_NUMBER

    def take(self, epoch: int, sequence: int, count: int, base_offset: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.written = epoch, []
        self.written.append((sequence, count, base_offset))


SENT = st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(-8, 3), st.integers(1, 3))
STARTS = st.sampled_from([0, 5, 2**31 - 4])


@given(STARTS, st.lists(SENT, max_size=60))
def test_producers_do_what_the_model_does(start: int, sent: list[tuple[int, int, int, int]]) -> None:
    producers, models, offset = Producers(), {1: Model(), 2: Model()}, 0
    for producer_id, epoch, distance, count in sent:
        model = models[producer_id]
        last = model.written[-1] if model.written else (start, 0, 0)
        # Mostly near what is due: retries of older batches, the next one, small gaps; for a new epoch also 0.
        due = 0 if epoch > model.epoch >= 0 and distance % 2 else last[0] + last[1]
        sequence = (due + distance) % 2**31 if distance < 0 or distance > 1 else due % 2**31
        batch = header(sequence, count, producer_id=producer_id, epoch=epoch)
        expected = model.outcome(epoch, sequence, count)
        if isinstance(expected, Code):
            assert refusal_of(producers, batch) == expected
        elif expected is Next:
            assert isinstance(producers.check(batch), Next)
            producers.advance(batch, offset, batch.max_timestamp)
            model.take(epoch, sequence, count, offset)
            offset += count
        else:
            assert producers.check(batch) == expected
