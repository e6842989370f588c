"""Seeking by time, across segments, batches and records."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.log.log import Log
from chronik.core.log.times import TimedOffset
from chronik.core.records.batch import accept
from chronik.core.records.payload import Record, assemble, build, pack
from chronik.core.records.steps import RECORDS_A_STEP, Work, finish
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of, header_of, open_log, put

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=200)


def log_of(files: MemoryFiles, *batches: list[int]) -> Log:
    """A log whose records have these times, relative to now."""
    log = open_log(files, SMALL)
    for times in batches:
        put(log, build([Record(0, NOW_MS + time, b"k", b"v" * 50) for time in times], NOW_MS))
    return log


TIMES = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=30)


@settings(max_examples=200)
@given(TIMES, st.integers(-1, 61), st.integers(0, 1000), st.integers(0, 1000), st.booleans())
def test_the_first_record_of_that_time_or_later_is_found(
    batches: list[list[int]], time: int, bound: int, start: int, is_reopened: bool
) -> None:
    files = MemoryFiles()
    log = log_of(files, *batches)
    records = [TimedOffset(offset, NOW_MS + t) for offset, t in enumerate(t for times in batches for t in times)]
    start %= len(records)
    bound = start + bound % (len(records) - start + 1)
    if is_reopened:
        log.close()
        log = open_log(files, SMALL, was_clean=True, log_start_offset=start)
    else:
        log.advance_start(start)
    later = [record for record in records[start:bound] if record.timestamp >= NOW_MS + time]
    assert finish(log.offset_for_time(NOW_MS + time, bound)) == (later[0] if later else None)
    newest = max((r.timestamp for r in records[start:bound]), default=None)
    expected = next((r for r in records[start:bound] if r.timestamp == newest), None)
    assert finish(log.offset_of_max_timestamp(bound)) == expected


def test_only_the_batch_that_decides_is_unpacked() -> None:
    files = MemoryFiles()
    log = log_of(files, *[[number] for number in range(30)])
    files.reads = 0
    assert finish(log.offset_for_time(NOW_MS + 29, 30)) == TimedOffset(29, NOW_MS + 29)
    assert files.reads < 8


def test_where_the_log_sets_the_time_all_records_of_a_batch_have_it() -> None:
    log = open_log(MemoryFiles(), TopicConfig(message_timestamp_type="LogAppendTime"))
    put(log, batch_of(3, time_ms=5), now_ms=NOW_MS)
    put(log, batch_of(3, time_ms=5), now_ms=NOW_MS + 10)
    assert finish(log.offset_for_time(NOW_MS + 1, 6)) == TimedOffset(3, NOW_MS + 10)
    assert finish(log.offset_for_time(6, 6)) == TimedOffset(0, NOW_MS)


def test_an_empty_log_has_no_time() -> None:
    log = open_log(MemoryFiles())
    assert finish(log.offset_for_time(0, 0)) is None
    assert finish(log.offset_of_max_timestamp(0)) is None


def test_records_without_a_time_are_not_found() -> None:
    log = open_log(MemoryFiles())
    put(log, batch_of(time_ms=-1))
    assert finish(log.offset_for_time(0, 1)) is None
    assert finish(log.offset_of_max_timestamp(1)) is None


def test_a_batch_whose_records_make_no_sense_is_judged_by_its_header() -> None:
    log = open_log(MemoryFiles())
    rubbish = assemble(b"rubbish", header_of(batch_of(1)))
    log.append(rubbish, accept(rubbish), 0, NOW_MS)
    assert finish(log.offset_for_time(NOW_MS, 1)) == TimedOffset(0, NOW_MS)


# --- large batches


def large(count: int = 20_000) -> bytearray:
    """Records one millisecond apart, packed."""
    batch = build([Record(0, NOW_MS + n, b"k", b"v" * 20) for n in range(count)], NOW_MS)
    return assemble(pack(bytes(batch[61:]), 4), header_of(batch)._replace(attributes=4))


def test_a_large_batch_is_looked_through_in_steps_and_no_further_than_needed() -> None:
    log = open_log(MemoryFiles())
    put(log, large())

    steps = log.offset_for_time(NOW_MS + 10_000, log.end_offset)

    taken = list(steps)
    assert isinstance(taken[0], Work)
    assert len(taken) == 1 + 10_000 // RECORDS_A_STEP
    assert finish(log.offset_for_time(NOW_MS + 10_000, log.end_offset)) == TimedOffset(10_000, NOW_MS + 10_000)
    assert finish(log.offset_of_max_timestamp(log.end_offset)) == TimedOffset(19_999, NOW_MS + 19_999)


def test_a_log_that_is_cut_between_two_steps_is_looked_through_anew() -> None:
    log = open_log(MemoryFiles())
    put(log, batch_of(3))
    put(log, large())
    steps = log.offset_for_time(NOW_MS + 10_000, log.end_offset)
    next(steps)

    log.truncate_to(3)
    put(log, batch_of(1, time_ms=NOW_MS + 50_000))

    assert finish(steps) == TimedOffset(3, NOW_MS + 50_000)


def test_a_file_that_goes_between_two_steps_is_no_failed_read() -> None:
    log = open_log(MemoryFiles(), SMALL)
    for _ in range(3):
        put(log, large())
    steps = log.offset_of_max_timestamp(log.end_offset)
    next(steps)

    log.advance_start(40_000)

    assert finish(steps) == TimedOffset(59_999, NOW_MS + 19_999)
