"""What a search has read, offset by offset: every offset that it was to read is read, or gone before it could be, or
still to be read. Nothing else is possible, and a search says which.

Consumers are given records, not offsets: where one comes that is not the next, those between have no record (compaction
took them, or a marker has the offset), or they were deleted before they could be read. Which of the two it is follows
from where the log began *after* that record came: what is above its start then was not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chronik.client.words import count, counted
from chronik.console.words import numbers

WINDOW_FIRST, WINDOW_GROWTH = 200, 5


@dataclass(frozen=True)
class OffsetSpan:
    """Half open."""

    begin: int
    end: int

    def __len__(self) -> int:
        return max(self.end - self.begin, 0)


def append_span(spans: list[OffsetSpan], span: OffsetSpan) -> None:
    """Behind the others: one that goes on where the last ends makes it longer."""
    if spans and spans[-1].end == span.begin:
        spans[-1] = OffsetSpan(spans[-1].begin, span.end)
    else:
        spans.append(span)


class SpanSet:
    """Offsets, as few spans in order."""

    def __init__(self) -> None:
        self._spans: list[OffsetSpan] = []

    def __iter__(self) -> Iterator[OffsetSpan]:
        return iter(self._spans)

    def __len__(self) -> int:
        return sum(len(span) for span in self._spans)

    def add(self, begin: int, end: int) -> None:
        if end <= begin:
            return
        kept: list[OffsetSpan] = []
        for span in self._spans:
            if span.end < begin or end < span.begin:
                kept.append(span)
            else:
                begin, end = min(begin, span.begin), max(end, span.end)
        self._spans = sorted([*kept, OffsetSpan(begin, end)], key=lambda span: span.begin)


@dataclass
class PartitionCoverage:
    """One partition of a search. `begin` and `end` are set when it begins: what is written later is not part of it."""

    partition: int
    begin: int
    end: int
    read: SpanSet = field(default_factory=SpanSet)
    gone: SpanSet = field(default_factory=SpanSet)
    """Deleted after the search began, before they could be read."""
    problem: str | None = None
    """Why it is not read further."""

    @property
    def wanted(self) -> int:
        return max(self.end - self.begin, 0)

    @property
    def is_whole(self) -> bool:
        return self.problem is None and len(self.read) + len(self.gone) == self.wanted


class SpanReading:
    """One span of one partition, being read forwards."""

    def __init__(self, partition: int, begin: int, end: int) -> None:
        self.partition = partition
        self.position = begin
        self.end = end
        self.passed: list[OffsetSpan] = []
        """Passed over without a record, and not settled yet: deleted, or never there."""

    @property
    def is_done(self) -> bool:
        return self.position >= self.end

    def take_record(self, offset: int) -> OffsetSpan | None:
        """What is read by it; None for one that is not of this span, as what comes after it."""
        if offset < self.position:
            return None  # a consumer that began anew
        self._pass_to(min(offset, self.end))
        if offset >= self.end:
            return None
        self.position = offset + 1
        return OffsetSpan(offset, offset + 1)

    def take_end(self, offset: int) -> None:
        """The log ends there. Below the end that was reported, it is a new leader's word, which for a moment may know
        less: nothing follows from it."""
        if offset >= self.end:
            self._pass_to(self.end)

    def _pass_to(self, offset: int) -> None:
        if offset > self.position:
            self.passed.append(OffsetSpan(self.position, offset))
            self.position = offset

    def settle(self, log_start: int | None) -> tuple[list[OffsetSpan], list[OffsetSpan]]:
        """Of what was passed over: what had no record, and what was deleted, as the log begins now. Where no node says
        where it begins, all of it may have been deleted."""
        empty, gone = [], []
        for span in self.passed:
            cut = span.end if log_start is None else min(max(log_start, span.begin), span.end)
            gone.append(OffsetSpan(span.begin, cut))
            empty.append(OffsetSpan(cut, span.end))
        self.passed = []
        return [span for span in empty if len(span)], [span for span in gone if len(span)]


def newest_windows(parts: Sequence[PartitionCoverage], first: int | None = None) -> Iterator[list[SpanReading]]:
    """Rounds that go back in time: in each the newest that has not been read, and more of it each time."""
    tops = {part.partition: part.end for part in parts}
    size = first or WINDOW_FIRST
    while True:
        spans = []
        for part in parts:
            top = tops[part.partition]
            bottom = max(part.begin, top - size)
            if bottom < top and part.problem is None:
                spans.append(SpanReading(part.partition, bottom, top))
                tops[part.partition] = bottom
        if not spans:
            return
        yield spans
        size *= WINDOW_GROWTH


def oldest_first(parts: Sequence[PartitionCoverage]) -> Iterator[list[SpanReading]]:
    """One round: all there is."""
    spans = [SpanReading(part.partition, part.begin, part.end) for part in parts if part.begin < part.end]
    if spans:
        yield spans


def words(parts: Iterable[PartitionCoverage], found: int, records: int) -> str:
    """'partitions 0-11, offsets 0 to 1,817,402 read, 3 found'."""
    looked = list(parts)
    if not looked:
        return "nothing to read: no partition was chosen"
    wanted, read = sum(part.wanted for part in looked), sum(len(part.read) for part in looked)
    gone = sum(len(part.gone) for part in looked)
    named = f"partition{'s' if len(looked) > 1 else ''} {numbers(part.partition for part in looked)}"
    spans = [span for part in looked for span in part.read]
    if not wanted:
        said = f"{named}: no offsets to read"
    elif not spans:
        said = f"{named}: none of {counted(wanted, 'offset')} read"
    else:
        low, high = min(span.begin for span in spans), max(span.end for span in spans) - 1
        said = f"{named}, offsets {count(low)} to {count(high)} read"
        if read + gone < wanted:
            said += f" in part ({count(read)} of {count(wanted)})"
    said += f": {counted(records, 'record')}" if spans else ""
    said += f", {count(found)} found"
    if gone:
        said += f"; {counted(gone, 'offset')} deleted before they could be read"
    for part in looked:
        if part.problem is not None:
            said += f"; partition {part.partition} is not read to its end ({part.problem})"
    return said
