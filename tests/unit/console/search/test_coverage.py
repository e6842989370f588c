"""Coverage against a model: a log in which records are missing, and from which more are deleted while it is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.console.search.coverage import (
    OffsetSpan,
    PartitionCoverage,
    SpanReading,
    SpanSet,
    append_span,
    newest_windows,
    oldest_first,
    words,
)


def offsets_of(spans: SpanSet) -> set[int]:
    return {offset for span in spans for offset in range(span.begin, span.end)}


def put(part: PartitionCoverage, span: SpanReading, log_start: int | None) -> None:
    empty, gone = span.settle(log_start)
    for each in empty:
        part.read.add(each.begin, each.end)
    for each in gone:
        part.gone.add(each.begin, each.end)


@given(
    end=st.integers(0, 60),
    missing=st.sets(st.integers(0, 59)),
    deletions=st.dictionaries(st.integers(0, 20), st.integers(0, 60), max_size=4),
    chunk=st.integers(1, 7),
    is_newest=st.booleans(),
)
def test_every_offset_is_read_or_gone_and_what_is_read_was_there_to_be_read(
    end: int, missing: set[int], deletions: dict[int, int], chunk: int, is_newest: bool
) -> None:
    part = PartitionCoverage(0, 0, end)
    rounds = newest_windows([part], first=9) if is_newest else oldest_first([part])
    log_start, turn, given_out = 0, 0, set()
    for spans in rounds:
        (span,) = spans
        while not span.is_done:
            log_start = max(log_start, min(deletions.get(turn, 0), end))
            turn += 1
            position = max(span.position, log_start)  # as a consumer that starts anew at the earliest
            there = [offset for offset in range(position, end) if offset not in missing][:chunk]
            for offset in there:
                if span.take_record(offset) is not None:
                    given_out.add(offset)
                    part.read.add(offset, offset + 1)
            if len(there) < chunk:
                span.take_end(end)
            put(part, span, log_start)

    read, gone = offsets_of(part.read), offsets_of(part.gone)
    assert read | gone == set(range(end))
    assert not read & gone
    assert part.is_whole
    # Of what is said to be read, each record that was there was given out; what is said to be gone was not.
    assert read - missing == given_out
    assert gone <= set(range(log_start))


def test_an_end_below_the_one_that_was_told_is_not_believed() -> None:
    span = SpanReading(0, 0, 10)

    span.take_record(0)
    span.take_end(5)

    assert (span.is_done, span.position) == (False, 1)


def test_where_nobody_tells_the_log_start_what_was_passed_over_may_be_gone() -> None:
    span = SpanReading(0, 0, 10)
    span.take_record(7)

    assert span.settle(None) == ([], [OffsetSpan(0, 7)])


def test_a_search_says_what_it_read() -> None:
    first, second = PartitionCoverage(0, 0, 100), PartitionCoverage(1, 0, 51)
    first.read.add(0, 100)
    second.read.add(0, 51)

    assert words([first, second], 3, 120) == "partitions 0-1, offsets 0 to 99 read: 120 records, 3 found"

    second.read = SpanSet()
    second.read.add(0, 10)
    assert words([first, second], 3, 80) == (
        "partitions 0-1, offsets 0 to 99 read in part (110 of 151): 80 records, 3 found"
    )
    second.gone.add(10, 51)
    second.problem = "no leader answers"
    assert words([first, second], 0, 80) == (
        "partitions 0-1, offsets 0 to 99 read: 80 records, 0 found; 41 offsets deleted before they could be read; "
        "partition 1 is not read to its end (no leader answers)"
    )
    assert not second.is_whole


def test_nothing_read_is_not_called_nothing_there() -> None:
    assert words([PartitionCoverage(2, 0, 9)], 0, 0) == "partition 2: none of 9 offsets read, 0 found"
    assert words([PartitionCoverage(2, 5, 5)], 0, 0) == "partition 2: no offsets to read, 0 found"


def test_windows_go_back_in_time_and_grow() -> None:
    part = PartitionCoverage(0, 0, 100)

    spans = [(span.position, span.end) for (span,) in newest_windows([part], first=10)]

    assert spans == [(90, 100), (40, 90), (0, 40)]


def test_spans_that_meet_become_one() -> None:
    spans: list[OffsetSpan] = []
    for offset in (1, 2, 5):
        append_span(spans, OffsetSpan(offset, offset + 1))

    assert spans == [OffsetSpan(1, 3), OffsetSpan(5, 6)]
