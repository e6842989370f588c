"""Finding records by their time. The one batch that decides is taken apart; all others are judged by their header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chronik.core.errors import Corrupt
from chronik.core.log.scan import Found, headers, read_batch
from chronik.core.log.segment import Segment
from chronik.core.records.payload import Record, walk


class TimedOffset(NamedTuple):
    """A record's offset and time."""

    offset: int
    timestamp: int


def record_at_time(
    segments: Sequence[Segment], timestamp: int, start_offset: int, bound_offset: int
) -> TimedOffset | None:
    """The first record from `start_offset` on whose time is `timestamp` or later, below `bound_offset`."""
    for segment in segments:
        if segment.end_offset <= start_offset or segment.newest()[0] < timestamp:
            continue
        if segment.base_offset >= bound_offset:
            break
        first = segment.locate_time(timestamp)
        position = first.position if first is not None else segment.size
        for found in headers(segment.file, position, segment.size, floor_offset=segment.base_offset):
            if found.header.base_offset >= bound_offset:
                return None
            if found.header.max_timestamp < timestamp or found.header.last_offset < start_offset:
                continue
            for offset, time in _times(segment, found):
                if time >= timestamp and offset >= start_offset:
                    return TimedOffset(offset, time) if offset < bound_offset else None
    return None


def newest_record(segments: Sequence[Segment], start_offset: int, bound_offset: int) -> TimedOffset | None:
    """The first of the records with the latest time, from `start_offset` on and below `bound_offset`."""
    newest: TimedOffset | None = None
    for segment in segments:
        if segment.end_offset <= start_offset or segment.base_offset >= bound_offset or segment.size == 0:
            continue
        if newest is not None and segment.newest()[0] <= newest.timestamp:
            continue
        candidate = _newest_in(segment, start_offset, bound_offset)
        if candidate is not None and (newest is None or candidate.timestamp > newest.timestamp):
            newest = candidate
    return newest


def _newest_in(segment: Segment, start_offset: int, bound_offset: int) -> TimedOffset | None:
    _, last_offset = segment.newest()
    if segment.base_offset >= start_offset and 0 <= last_offset < bound_offset:
        found = segment.locate(last_offset)
        batches = [found] if found is not None else []
    else:  # part of it does not count: look at the headers of the part that does
        walk_all = headers(segment.file, 0, segment.size, floor_offset=segment.base_offset)
        within = (f for f in walk_all if f.header.last_offset >= start_offset and f.header.base_offset < bound_offset)
        batches = sorted(within, key=lambda f: (-f.header.max_timestamp, f.position))
    times: list[TimedOffset] = []
    for found in batches:
        if times and found.header.max_timestamp < max(time.timestamp for time in times):
            break
        times += (time for time in _times(segment, found) if start_offset <= time.offset < bound_offset)
    return min((time for time in times if time.timestamp >= 0), key=lambda t: (-t.timestamp, t.offset), default=None)


def _times(segment: Segment, found: Found) -> list[TimedOffset]:
    """Offset and time of each record of a batch. Its bytes are as the producer sent them, sound or not."""
    batch = read_batch(segment.file, found)
    try:
        records: list[Record] = list(walk(batch))
    except Corrupt:  # the checksum holds, so the disk is right: what was sent makes no sense, and the header must do
        return [TimedOffset(found.header.base_offset, found.header.max_timestamp)]
    return [TimedOffset(record.offset, record.timestamp) for record in records]
