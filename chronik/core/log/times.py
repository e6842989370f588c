"""Finding records by their time. The one batch that decides is taken apart; all others are judged by their header.

That batch is what some producer made it: it is gone through in steps (core/records/steps.py), no further than needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from chronik.core.errors import Corrupt
from chronik.core.log.scan import ScannedBatch, headers, read_batch
from chronik.core.log.segment import Segment
from chronik.core.records.payload import skim, unpacked
from chronik.core.records.steps import RECORDS_A_STEP, Steps

HEADERS_A_STEP = 200


class TimedOffset(NamedTuple):
    """A record's offset and time."""

    offset: int
    timestamp: int


class SeenLog(NamedTuple):
    """What a log was when it was looked at."""

    segments: tuple[Segment, ...]
    start_offset: int
    cuts: int

    def holds_in(self, now: SeenLog) -> bool:
        """Whether nothing of it has gone since; there may be more."""
        return self == SeenLog(now.segments[: len(self.segments)], now.start_offset, now.cuts)


def sought(
    look: Callable[[], SeenLog], seek: Callable[[Sequence[Segment], int], Steps[TimedOffset | None]]
) -> Steps[TimedOffset | None]:
    """What is found in the log as it is at the end: if records went away in between, it is looked through anew."""
    while True:
        seen = look()
        try:
            found = yield from seek(seen.segments, seen.start_offset)
        except (Corrupt, OSError):
            if seen.holds_in(look()):
                raise
        else:
            if seen.holds_in(look()):
                return found


def record_at_time(
    segments: Sequence[Segment], timestamp: int, start_offset: int, bound_offset: int
) -> Steps[TimedOffset | None]:
    """The first record from `start_offset` on whose time is `timestamp` or later, below `bound_offset`."""
    for segment in segments:
        if segment.end_offset <= start_offset or segment.newest()[0] < timestamp:
            continue
        if segment.base_offset >= bound_offset:
            break
        first = segment.locate_time(timestamp)
        position = first.position if first is not None else segment.size
        for number, found in enumerate(_headers(segment, position), 1):
            if number % HEADERS_A_STEP == 0:
                yield None
            if found.header.base_offset >= bound_offset:
                return None
            if found.header.max_timestamp < timestamp or found.header.last_offset < start_offset:
                continue
            due = yield from _first_at(segment, found, timestamp, start_offset)
            if due is not None:
                return due if due.offset < bound_offset else None
    return None


def _first_at(segment: Segment, found: ScannedBatch, timestamp: int, start_offset: int) -> Steps[TimedOffset | None]:
    """The first record of this batch that is neither earlier nor below `start_offset`."""
    batch = read_batch(segment.file, found)
    try:
        records = yield from unpacked(batch, found.header)
        for number, record in enumerate(skim(records, found.header), 1):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimedOffset(record.offset, record.timestamp)
            if number % RECORDS_A_STEP == 0:
                yield None
    except Corrupt:
        stated = _as_stated(found)
        return stated if stated.offset >= start_offset else None
    return None


def newest_record(segments: Sequence[Segment], start_offset: int, bound_offset: int) -> Steps[TimedOffset | None]:
    """The first of the records with the latest time, from `start_offset` on and below `bound_offset`."""
    newest: TimedOffset | None = None
    for segment in segments:
        if segment.end_offset <= start_offset or segment.base_offset >= bound_offset or segment.size == 0:
            continue
        if newest is not None and segment.newest()[0] <= newest.timestamp:
            continue
        candidate = yield from _newest_in(segment, start_offset, bound_offset)
        if candidate is not None and (newest is None or candidate.timestamp > newest.timestamp):
            newest = candidate
    return newest


def _newest_in(segment: Segment, start_offset: int, bound_offset: int) -> Steps[TimedOffset | None]:
    _, last_offset = segment.newest()
    batches: list[ScannedBatch] = []
    if segment.base_offset >= start_offset and 0 <= last_offset < bound_offset:
        located = segment.locate(last_offset)
        batches += [located] if located is not None else []
    else:  # part of it does not count: look at the headers of the part that does
        for number, found in enumerate(_headers(segment, 0), 1):
            if found.header.last_offset >= start_offset and found.header.base_offset < bound_offset:
                batches.append(found)
            if number % HEADERS_A_STEP == 0:
                yield None
        batches.sort(key=lambda found: (-found.header.max_timestamp, found.position))
    newest: TimedOffset | None = None
    for found in batches:
        if newest is not None and found.header.max_timestamp < newest.timestamp:
            break
        candidate = yield from _newest_of(segment, found, start_offset, bound_offset)
        if candidate is not None and (newest is None or _is_newer(candidate, newest)):
            newest = candidate
    return newest


def _newest_of(
    segment: Segment, found: ScannedBatch, start_offset: int, bound_offset: int
) -> Steps[TimedOffset | None]:
    """The first of the records of this batch with the latest time, of those that count."""
    newest: TimedOffset | None = None
    batch = read_batch(segment.file, found)
    try:
        records = yield from unpacked(batch, found.header)
        for number, record in enumerate(skim(records, found.header), 1):
            if start_offset <= record.offset < bound_offset and record.timestamp >= 0:
                candidate = TimedOffset(record.offset, record.timestamp)
                if newest is None or _is_newer(candidate, newest):
                    newest = candidate
            if number % RECORDS_A_STEP == 0:
                yield None
    except Corrupt:
        stated = _as_stated(found)
        return stated if start_offset <= stated.offset < bound_offset and stated.timestamp >= 0 else None
    return newest


def _is_newer(one: TimedOffset, other: TimedOffset) -> bool:
    return (one.timestamp, -one.offset) > (other.timestamp, -other.offset)


def _as_stated(found: ScannedBatch) -> TimedOffset:
    """The checksum holds, so the disk is right: what was sent makes no sense, and its header must do."""
    return TimedOffset(found.header.base_offset, found.header.max_timestamp)


def _headers(segment: Segment, position: int) -> Iterator[ScannedBatch]:
    return headers(segment.file, position, segment.size, floor_offset=segment.base_offset)
