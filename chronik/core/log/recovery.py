"""Finding out where a log ends after a node that did not shut down in order.

What stands at and above the recovery point is read and checked batch by batch. A write that was torn is the last
thing in the log: it is copied to a side file `<segment>.cut`, cut off and reported. So is what stands in later
segments: nothing of it counted yet (`recovery_point`). Anything else that does not check out is damage to what was
once whole, perhaps acknowledged: nothing is cut, `Corrupt` takes the replica offline. What is sound is written again,
in its place: if the last process died of a sync that failed, or before one could have reported it, the system has those
bytes in memory and takes them for written, and no sync would put them on disk. Indexes and producer snapshots are made
anew where they are missing or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from chronik.core.errors import Corrupt
from chronik.core.log.scan import SCAN_BYTES, ScannedBatch, headers, sound_batch_after, sound_headers
from chronik.core.log.segment import Segment
from chronik.core.ports import Files
from chronik.core.types import UNKNOWN_OFFSET

CUT_SUFFIX = ".cut"


@dataclass(slots=True)
class Scanned:
    """What a scan met."""

    batches: int = 0
    cut_bytes: int = 0
    cut_from_offset: int | None = None
    closed: list[Segment] = field(default_factory=list)  # segments, not the last, whose indexes are to be written
    relearned: list[Segment] = field(default_factory=list)  # all of those that were read anew
    dropped: int = 0  # segments that were none of this log


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What was found and done when a log was opened."""

    was_clean: bool = True
    scanned_batches: int = 0
    cut_bytes: int = 0
    cut_from_offset: int | None = None
    rebuilt_indexes: tuple[str, ...] = ()  # also snapshots and the epoch file


NOTHING_TO_REPORT = RecoveryReport()


def rescan(files: Files, segments: list[Segment], synced_offset: int, has_gaps: bool, log_start_offset: int) -> Scanned:
    """As `_rescan`, but for what lies wholly below the log start: removed in part, it need not hang together."""
    below = [segment for segment in segments[:-1] if segment.end_offset <= log_start_offset]
    above = segments[len(below) :]
    scanned = _rescan(files, above, synced_offset, has_gaps)
    segments[:] = below + above
    return scanned


def _rescan(files: Files, segments: list[Segment], synced_offset: int, has_gaps: bool) -> Scanned:
    """Learn the segments that end at or above the recovery point anew, and cut a torn tail.

    A segment that ends right there is among them: its index files may not have been synced. So is the last one with
    anything in it: what an empty one behind it says of its end may be of an earlier life. A recovery point that is not
    known is UNKNOWN_OFFSET.
    """
    scanned = Scanned()
    first = next((i for i, s in enumerate(segments) if s.end_offset >= synced_offset), len(segments) - 1)
    first = min(first, max((i for i, s in enumerate(segments) if s.size), default=0))
    for place in range(first, len(segments)):
        segment = segments[place]
        size = segment.size
        segment.forget()
        # Only compaction leaves gaps, and it leaves the last segment alone.
        is_contiguous = not has_gaps and place == len(segments) - 1
        problem = _learn_sound(segment, size, synced_offset, is_contiguous, scanned) or _hole(segments, place)
        if problem is not None and segment.end_offset < synced_offset and segment.size == size and has_gaps:
            problem = None
        if problem is not None:
            _refuse_damage(problem, segments, place, size, synced_offset)
            _cut_later(files, segments, place, scanned)
            _cut(files, segment, size, scanned)
            break
    scanned.dropped += _drop_strays(segments, first)
    scanned.closed, scanned.relearned = segments[first:-1], segments[first:]
    return scanned


def _hole(segments: list[Segment], place: int) -> Corrupt | None:
    """A file that was cut between two batches looks sound, but the log goes on behind it."""
    segment, later = segments[place], [later for later in segments[place + 1 :] if later.size]
    if later and segment.end_offset < later[0].base_offset:
        problem = f"ends at offset {segment.end_offset}, the next begins at {later[0].base_offset}"
        return Corrupt(segment.file.path, problem)
    return None


def _learn_sound(
    segment: Segment, size: int, synced_offset: int, is_contiguous: bool, scanned: Scanned
) -> Corrupt | None:
    """Learn batches as long as they are sound. Below the recovery point only headers are read."""
    try:
        for _, header in _batches(segment, size, synced_offset):
            if is_contiguous and header.base_offset != segment.end_offset:
                problem = f"offset {header.base_offset} where {segment.end_offset} is due"
                return Corrupt(f"{segment.file.path} at {segment.size}", problem)
            segment.learn_header(header)
            scanned.batches += 1
    except Corrupt as problem:
        return problem
    return None


def _batches(segment: Segment, size: int, synced_offset: int) -> Iterator[ScannedBatch]:
    position, floor_offset = 0, segment.base_offset
    if floor_offset < synced_offset:
        for found in headers(segment.file, 0, size, floor_offset=floor_offset, chunk_bytes=SCAN_BYTES):
            if found.header.next_offset > synced_offset:
                break
            yield found
            position, floor_offset = found.position + found.header.size_bytes, found.header.next_offset
    yield from sound_headers(segment.file, position, size, floor_offset=floor_offset, writes_again=True)


def _refuse_damage(problem: Corrupt, segments: list[Segment], place: int, size: int, synced_offset: int) -> None:
    """Raise the problem again unless it can only be a torn tail."""
    segment = segments[place]
    if segment.end_offset < synced_offset:
        raise Corrupt(problem.where, f"{problem.what}; offsets below {synced_offset} had been synced")
    if synced_offset == UNKNOWN_OFFSET and any(later.size for later in segments[place + 1 :]):
        raise Corrupt(problem.where, f"{problem.what}; and it is not the last segment")
    sound = sound_batch_after(segment.file, segment.size, size, segment.end_offset)
    if sound is not None:
        where = f"a sound batch (offset {sound.header.base_offset}) stands at {sound.position}"
        raise Corrupt(problem.where, f"{problem.what}; yet {where}, so this is no torn write")


def _cut_later(files: Files, segments: list[Segment], place: int, scanned: Scanned) -> None:
    """Put aside the segments behind a torn one, the last first: a crash in between leaves as much to do."""
    while len(segments) > place + 1:
        later = segments.pop()
        files.rename(later.file.path, later.path + CUT_SUFFIX)
        later.remove()
        scanned.cut_bytes += later.size
        scanned.dropped += 1


def _cut(files: Files, segment: Segment, size: int, scanned: Scanned) -> None:
    """Take the torn tail off, after a copy of it is safe."""
    start = segment.size
    scanned.cut_from_offset = segment.end_offset
    if start == size:
        return
    aside = files.open(segment.path + CUT_SUFFIX)
    for position in range(start, size, SCAN_BYTES):
        aside.append((segment.file.read(position, min(SCAN_BYTES, size - position)),))
    aside.sync()
    aside.close()
    segment.file.truncate(start)
    segment.file.sync()
    segment.inherited_bytes = start
    scanned.cut_bytes += size - start


def _drop_strays(segments: list[Segment], first: int) -> int:
    """Drop, of those that were scanned, what is none of this log: empty segments that were begun at an offset it did
    not reach, and those that begin before the one before them ends. These were cut off by an earlier process, and are
    back because a power cut undid it; the log has gone on without them since."""
    strays: list[Segment] = []
    end_offset = segments[first].end_offset
    for segment in segments[first + 1 :]:
        if segment.base_offset < end_offset or (segment.size == 0 and segment.base_offset > end_offset):
            strays.append(segment)
        else:
            end_offset = segment.end_offset
    for segment in strays:
        segments.remove(segment)
        segment.remove()
    return len(strays)
