"""Leader epochs: what replicas compare (KIP-101), and the file that keeps them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.log.epochs import Epochs, EpochStart


def epochs_of(*entries: tuple[int, int]) -> Epochs:
    epochs = Epochs()
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def test_the_latest_epoch_ends_where_the_log_ends() -> None:
    assert epochs_of((0, 0), (2, 10)).end_offset_for(2, log_end_offset=25) == (2, 25)


def test_an_older_epoch_ends_where_the_next_one_begins() -> None:
    assert epochs_of((0, 0), (2, 10), (3, 20)).end_offset_for(2, log_end_offset=25) == (2, 20)


def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before_it() -> None:
    assert epochs_of((0, 0), (2, 10)).end_offset_for(1, log_end_offset=25) == (0, 10)


def test_an_epoch_before_the_first_known_ends_where_that_begins() -> None:
    assert epochs_of((5, 100), (6, 120)).end_offset_for(3, log_end_offset=150) == (3, 100)


def test_of_an_unknown_or_later_epoch_nothing_is_said() -> None:
    epochs = epochs_of((0, 0), (2, 10))
    assert epochs.end_offset_for(3, log_end_offset=25) == (-1, -1)
    assert epochs.end_offset_for(-1, log_end_offset=25) == (-1, -1)
    assert Epochs().end_offset_for(0, log_end_offset=0) == (-1, -1)


def test_an_epoch_is_assigned_once() -> None:
    epochs = epochs_of((0, 0), (1, 10))
    epochs.assign(1, 15)
    assert epochs.entries == (EpochStart(0, 0), EpochStart(1, 10))


def test_a_new_epoch_drops_what_contradicts_it() -> None:
    assert epochs_of((0, 0), (3, 10), (4, 20), (5, 10)).entries == (EpochStart(0, 0), EpochStart(5, 10))


def test_an_epoch_without_records_gives_way_to_the_next_at_the_same_offset() -> None:
    assert epochs_of((1, 10), (2, 10)).entries == (EpochStart(2, 10),)


def test_negative_numbers_are_a_bug() -> None:
    with pytest.raises(ValueError):
        Epochs().assign(-1, 0)


def test_each_offset_has_the_epoch_that_began_last_before_it() -> None:
    epochs = epochs_of((1, 5), (4, 10))
    assert [epochs.at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 4, 4]


def test_truncation_forgets_epochs_from_there_on() -> None:
    epochs = epochs_of((1, 5), (4, 10), (5, 20))
    epochs.truncate(10)
    assert epochs.entries == (EpochStart(1, 5),)


def test_when_the_log_start_moves_up_its_epoch_begins_there() -> None:
    epochs = epochs_of((1, 5), (4, 10), (5, 20))
    epochs.advance(12)
    assert epochs.entries == (EpochStart(4, 12), EpochStart(5, 20))


def test_the_file_is_kafkas() -> None:
    assert epochs_of((0, 0), (3, 120)).encode(end_offset=200) == b"0\n2\n0 0\n3 120\n"


def test_an_epoch_without_a_batch_is_not_written() -> None:
    assert epochs_of((0, 0), (3, 120)).encode(end_offset=120) == b"0\n1\n0 0\n"


ENTRIES = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**40), max_size=10).map(
    lambda found: list(zip(sorted(found), sorted(set(found.values())), strict=False))
)


@given(ENTRIES)
def test_a_file_reads_back_what_was_written(entries: list[tuple[int, int]]) -> None:
    epochs = epochs_of(*entries)
    again = Epochs.decode(epochs.encode(2**62))
    assert again is not None
    assert again.entries == epochs.entries


@given(ENTRIES, st.data())
def test_a_flipped_bit_never_leaves_the_same_epochs(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    epochs = epochs_of(*entries)
    content = bytearray(epochs.encode(2**62))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    again = Epochs.decode(bytes(content))
    # What it says now is checked against the batches; see test_recovery.
    assert again is None or again.entries != epochs.entries


@given(st.binary(max_size=60))
def test_no_bytes_make_decoding_fail(content: bytes) -> None:
    again = Epochs.decode(content)
    assert again is None or again.encode(2**63) == content
