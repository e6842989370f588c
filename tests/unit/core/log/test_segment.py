"""Planning reads within one segment, whatever way leads to the position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.log.segment import Segment, Slice
from chronik.core.records.batch import stamp
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, NOW_MS, SEGMENT, batch_of

INTERVAL = 300


def segment_with(files: MemoryFiles, counts: list[int], *, size: int = 50, first_offset: int = 0) -> Segment:
    """A segment of batches with these record counts, each one millisecond later."""
    segment = Segment(files, DIRECTORY, 0, INTERVAL, NOW_MS)
    offset = first_offset
    for number, count in enumerate(counts):
        batch = batch_of(count, value=b"v" * size, time_ms=NOW_MS + number)
        stamp(batch, offset, 0)
        segment.append(batch, offset, offset + count - 1, NOW_MS + number)
        offset += count
    return segment


def inherited(files: MemoryFiles, segment: Segment) -> Segment:
    """The same segment as the next process sees it."""
    segment.write_indexes()
    return Segment.inherit(files, DIRECTORY, 0, segment.end_offset, INTERVAL, NOW_MS)


def plan_cold(segment: Segment, start: int, bound: int, max_bytes: int, at_least_one: bool) -> Slice | None:
    found = segment.locate(start)
    assert found is not None
    return segment.plan(found, bound, max_bytes, at_least_one)


def plan_by_model(
    counts: list[int], sizes: list[int], start: int, bound: int, max_bytes: int, at_least_one: bool
) -> tuple[int, int, int] | None:
    """Position, length and next offset by looking at every batch."""
    base, position, planned = 0, 0, None
    for count, size in zip(counts, sizes, strict=True):
        if base + count > start and base < bound:
            if planned is None:
                if size > max_bytes and not at_least_one:
                    return None
                planned = (position, size, base + count)
            elif position + size - planned[0] <= max_bytes:
                planned = (planned[0], position + size - planned[0], base + count)
            else:
                return planned
        base, position = base + count, position + size
    return planned


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.integers(0, 250),
    st.integers(1, 250),
    st.integers(0, 5000),
    st.booleans(),
)
def test_remembered_and_sought_batches_give_the_plan_of_the_model(
    counts: list[int], start: int, bound: int, max_bytes: int, at_least_one: bool
) -> None:
    total = sum(counts)
    start = start % total
    bound = min(start + bound, total)
    files = MemoryFiles()
    segment = segment_with(files, counts)
    sizes = [len(batch_of(count, value=b"v" * 50)) for count in counts]
    expected = plan_by_model(counts, sizes, start, bound, max_bytes, at_least_one)
    recent = segment.plan_recent(start, bound, max_bytes, at_least_one)
    assert (recent and (recent.position, recent.length, recent.next_offset)) == expected
    cold = plan_cold(segment, start, bound, max_bytes, at_least_one)
    assert (cold and (cold.position, cold.length, cold.next_offset)) == expected
    older = plan_cold(inherited(files, segment), start, bound, max_bytes, at_least_one)
    assert (older and (older.position, older.length, older.next_offset)) == expected
    if recent is not None and cold is not None:
        assert recent.start_offset == cold.start_offset <= start


def test_only_the_latest_batches_are_remembered() -> None:
    segment = segment_with(MemoryFiles(), [1] * 500)
    assert segment.remembers(499)
    assert not segment.remembers(0)
    assert not segment.remembers(500)


def test_a_batch_is_found_by_reading_little() -> None:
    files = MemoryFiles()
    segment = inherited(files, segment_with(files, [2] * 2000))
    segment.index.floor(0)
    files.reads = 0
    found = segment.locate(2001)
    assert found is not None
    assert (found.header.base_offset, files.reads) == (2000, 2)


def test_after_a_gap_the_next_batch_is_found() -> None:
    files = MemoryFiles()
    segment = segment_with(files, [1, 1])
    batch = batch_of(1)
    stamp(batch, 10, 0)
    segment.append(batch, 10, 10, NOW_MS)
    found = segment.locate(5)
    assert found is not None
    assert found.header.base_offset == 10
    assert not segment.remembers(1)


def test_bytes_of_an_earlier_process_need_a_check_and_our_own_do_not() -> None:
    files = MemoryFiles()
    ours = segment_with(files, [1, 1])
    plan = ours.plan_recent(0, 2, 1000, True)
    assert plan is not None
    assert not plan.needs_check
    theirs = inherited(files, ours)
    theirs.load_tail()
    plan = theirs.plan_recent(0, 2, 1000, True)
    assert plan is not None
    assert plan.needs_check


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeros", "foreign"])
def test_a_damaged_index_is_made_anew(suffix: str, damage: str) -> None:
    files = MemoryFiles()
    written = segment_with(files, [1] * 50)
    segment = inherited(files, written)
    content = files.read_all(SEGMENT + suffix)
    match damage:
        case "missing":
            files.remove(SEGMENT + suffix)
        case "cut":
            files.replace(SEGMENT + suffix, content[:-1])
        case "zeros":
            files.replace(SEGMENT + suffix, bytes(len(content)))
        case "foreign":  # well-formed, but of other batches
            files.replace(SEGMENT + suffix, b"".join((b"\0\0\0\7" * (len(content) // 4),))[: len(content) // 12 * 12])
    for offset in range(50):
        found = segment.locate(offset)
        assert found is not None
        assert found.header.base_offset == offset
    assert segment.newest() == written.newest()
    assert segment.rebuilt == [SEGMENT + suffix]
    assert files.read_all(SEGMENT + suffix) == content


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_no_flipped_bit_in_an_index_changes_an_answer(suffix: str) -> None:
    files = MemoryFiles()
    segment = segment_with(files, [1] * 16)
    offsets, times = range(16), range(NOW_MS - 1, NOW_MS + 17)
    expected = [segment.locate(offset) for offset in offsets]
    expected_times = [segment.locate_time(time) for time in times]
    segment.write_indexes()
    for bit in range(files.open(SEGMENT + suffix).size() * 8):
        damaged = files.copy()
        damaged.flip(SEGMENT + suffix, bit)
        again = Segment.inherit(damaged, DIRECTORY, 0, segment.end_offset, INTERVAL, NOW_MS)
        found, found_times = [again.locate(o) for o in offsets], [again.locate_time(t) for t in times]
        assert (found, found_times, again.newest()) == (expected, expected_times, segment.newest())


def test_a_time_is_found_in_the_first_batch_that_reaches_it() -> None:
    files = MemoryFiles()
    segment = inherited(files, segment_with(files, [1] * 100))
    found = segment.locate_time(NOW_MS + 63)
    assert found is not None
    assert found.header.base_offset == 63
    assert segment.locate_time(NOW_MS + 100) is None


def test_a_segment_that_reaches_into_the_next_is_damaged() -> None:
    files = MemoryFiles()
    segment_with(files, [1] * 5)
    shorter = Segment.inherit(files, DIRECTORY, 0, 3, INTERVAL, NOW_MS)
    with pytest.raises(Corrupt, match="the next segment begins at 3"):
        shorter.locate(0)


def test_the_tail_behind_the_last_index_entry_is_learned() -> None:
    files = MemoryFiles()
    written = segment_with(files, [2] * 50)
    again = inherited(files, written)
    again.end_offset = 2**63 - 1
    again.load_tail()
    assert (again.end_offset, again.size, again.newest()) == (100, written.size, written.newest())
    assert again.index.encode() == written.index.encode()
    assert again.remembers(99)


def test_a_segment_has_room_up_to_its_limits() -> None:
    segment = segment_with(MemoryFiles(), [1])
    size = segment.size
    assert segment.has_room_for(100, 1, size + 100, 10**6)
    assert not segment.has_room_for(100, 1, size + 99, 10**6)
    assert not segment.has_room_for(1, 2**31, 2**31, 10**6)
    indexed = segment_with(MemoryFiles(), [1] * 20)
    entries = len(indexed.index)
    while indexed.has_room_for(1, 20, 10**6, index_bytes=8):  # until an entry is due
        indexed.learn(100, indexed.end_offset, indexed.end_offset, NOW_MS)
    assert indexed.has_room_for(1, 20, 10**6, index_bytes=(entries + 2) * 12)
    assert not indexed.has_room_for(1, 20, 10**6, index_bytes=(entries + 1) * 12)
    assert Segment(MemoryFiles(), DIRECTORY, 0, INTERVAL, NOW_MS).has_room_for(10**6, 0, 100, 8)


def test_age_is_counted_from_the_first_record() -> None:
    files = MemoryFiles()
    segment = segment_with(files, [1, 1])
    assert segment.age_ms(NOW_MS + 500, now_ms=0) == 500
    assert inherited(files, segment).age_ms(NOW_MS + 500, now_ms=0) == 500
    assert segment.age_ms(-1, now_ms=NOW_MS + 70) == 70
    assert Segment(files, "other-0", 0, INTERVAL, 0).age_ms(NOW_MS, NOW_MS) == 0


def test_truncation_takes_the_whole_batch_the_offset_lies_in() -> None:
    files = MemoryFiles()
    segment = segment_with(files, [2] * 50)
    segment.truncate(61)
    assert segment.end_offset == 60
    assert segment.file.size() == segment.size
    assert segment.newest() == (NOW_MS + 29, 59)
    assert segment.locate(60) is None


def test_an_offset_that_no_index_could_hold_is_damage() -> None:
    files = MemoryFiles()
    segment = segment_with(files, [1] * 3)
    stamp(memoryview(files.contents[SEGMENT + ".log"].written)[-segment.size // 3 :], 2**31, 0)
    segment.forget()
    with pytest.raises(Corrupt, match="too far"):
        segment.relearn(0, files.open(SEGMENT + ".log").size())


def on_disk(files: MemoryFiles, suffix: str) -> bytes | None:
    path = f"{DIRECTORY}/{0:020}{suffix}"
    return files.read_all(path) if files.exists(path) else None


def test_the_indexes_of_a_segment_in_use_are_shown_as_they_are_now() -> None:
    files = MemoryFiles()
    segment = segment_with(files, [1] * 40)
    assert on_disk(files, ".index") is None

    segment.show_indexes()
    assert on_disk(files, ".index") == segment.index.encode() != b""
    assert on_disk(files, ".timeindex") == segment.times.encode() != b""

    for offset in range(40, 60):
        batch = batch_of(1, value=bytes(200), time_ms=NOW_MS + offset)
        stamp(batch, offset, 0)
        segment.append(batch, offset, offset, NOW_MS + offset)
    segment.show_indexes()
    assert on_disk(files, ".index") == segment.index.encode()
    assert on_disk(files, ".timeindex") == segment.times.encode()

    segment.truncate(20)
    segment.show_indexes()
    assert on_disk(files, ".index") == segment.index.encode()
    assert on_disk(files, ".timeindex") == segment.times.encode()


def test_the_indexes_of_a_segment_that_nothing_was_written_to_are_left_alone() -> None:
    files = MemoryFiles()
    segment = inherited(files, segment_with(files, [1] * 40))
    files.remove(f"{DIRECTORY}/{0:020}.index")

    segment.show_indexes()

    assert on_disk(files, ".index") is None
