"""The sparse indexes: what they find, and that their bytes are Kafka's."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from chronik.core.log.index import OffsetIndex, TimeIndex

GROWING = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=50).map(sorted)
TIMES = st.lists(st.integers(0, 2**62), unique=True, max_size=50).map(sorted)


def offset_index(entries: list[tuple[int, int]], base_offset: int = 0) -> OffsetIndex:
    index = OffsetIndex(base_offset)
    for last_offset, position in entries:
        index.append(last_offset, position)
    return index


def time_index(entries: list[tuple[int, int]], base_offset: int = 0) -> TimeIndex:
    index = TimeIndex(base_offset)
    for timestamp, last_offset in entries:
        index.append(timestamp, last_offset)
    return index


def test_an_offset_is_found_through_the_entry_at_or_before_it() -> None:
    index = offset_index([(110, 500), (120, 900)], base_offset=100)
    assert index.floor(109) is None
    assert index.floor(110) == (110, 500)
    assert index.floor(119) == (110, 500)
    assert index.floor(5000) == (120, 900)


def test_a_position_is_found_through_the_entry_at_or_before_it() -> None:
    index = offset_index([(110, 500), (120, 900)], base_offset=100)
    assert index.floor_position(499) is None
    assert index.floor_position(899) == (110, 500)


def test_the_bytes_are_relative_offset_and_position_in_network_order() -> None:
    assert offset_index([(107, 258)], base_offset=100).encode() == bytes.fromhex("00000007 00000102")


def test_the_time_bytes_are_timestamp_and_relative_offset_in_network_order() -> None:
    assert time_index([(258, 107)], base_offset=100).encode() == bytes.fromhex("0000000000000102 00000007")


@given(GROWING, GROWING, st.integers(0, 2**40))
def test_an_offset_index_reads_back_what_it_wrote(offsets: list[int], positions: list[int], base_offset: int) -> None:
    entries = [(base_offset + offset, position) for offset, position in zip(offsets, positions, strict=False)]
    content = offset_index(entries, base_offset).encode()
    again = OffsetIndex.decode(base_offset, content, 2**31)
    assert again is not None
    assert [again.floor(offset) for offset, _ in entries] == entries
    assert content == b"".join(struct.pack(">ii", offset - base_offset, position) for offset, position in entries)


@given(TIMES, GROWING, st.integers(0, 2**40))
def test_a_time_index_reads_back_what_it_wrote(times: list[int], offsets: list[int], base_offset: int) -> None:
    entries = [(time, base_offset + offset) for time, offset in zip(times, offsets, strict=False)]
    content = time_index(entries, base_offset).encode()
    again = TimeIndex.decode(base_offset, content, base_offset + 2**31)
    assert again is not None
    assert [again.before(time + 1) for time, _ in entries] == entries
    assert content == b"".join(struct.pack(">qi", time, offset - base_offset) for time, offset in entries)


@given(st.binary(max_size=100), st.integers(0, 2**31))
def test_no_bytes_make_decoding_fail_or_give_an_index_that_is_not_in_order(content: bytes, bound: int) -> None:
    index = OffsetIndex.decode(0, content, bound)
    if index is not None:
        entries = [entry for at in range(len(index)) if (entry := index._entry(at)) is not None]
        assert entries == sorted(entries)
        assert all(0 <= position < bound for _, position in entries)
    TimeIndex.decode(0, content, bound)


def test_an_index_cut_within_an_entry_is_refused() -> None:
    content = offset_index([(1, 10), (2, 20)]).encode()
    assert OffsetIndex.decode(0, content[:-1], 1000) is None
    assert TimeIndex.decode(0, time_index([(1, 1)]).encode()[:-1], 1000) is None


def test_an_index_that_goes_back_or_out_of_the_file_is_refused() -> None:
    assert OffsetIndex.decode(0, offset_index([(2, 10), (1, 20)]).encode(), 1000) is None
    assert OffsetIndex.decode(0, offset_index([(1, 20), (2, 10)]).encode(), 1000) is None
    assert OffsetIndex.decode(0, offset_index([(1, 1000)]).encode(), 1000) is None
    assert TimeIndex.decode(0, time_index([(5, 1000)]).encode(), 1000) is None


def test_the_time_index_takes_an_entry_only_when_time_has_moved_on() -> None:
    index = time_index([(10, 1), (10, 2), (9, 3), (11, 4)])
    assert len(index) == 2
    assert index.last == (11, 4)


def test_records_without_a_time_are_not_in_the_time_index() -> None:
    assert len(time_index([(-1, 1)])) == 0


def test_a_time_is_sought_behind_the_last_entry_that_is_too_early() -> None:
    index = time_index([(10, 1), (20, 5)])
    assert index.before(10) is None
    assert index.before(20) == (10, 1)
    assert index.before(21) == (20, 5)


@given(GROWING, st.integers(0, 2**31))
def test_truncating_forgets_the_entries_from_there_on(offsets: list[int], end_offset: int) -> None:
    index = offset_index([(offset, number) for number, offset in enumerate(offsets)])
    index.truncate(end_offset)
    assert len(index) == sum(offset < end_offset for offset in offsets)
    times = time_index([(number, offset) for number, offset in enumerate(offsets)])
    times.truncate(end_offset)
    assert len(times) == sum(offset < end_offset for offset in offsets)
