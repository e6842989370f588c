"""One segment: a file of batches, its indexes, and where its latest batches stand.

Reading is planned here, not done: a plan names whole batches by position and length, and the caller fetches the
bytes. Three ways lead to a position, quickest first: the latest batches are remembered one by one; older ones are
found through the sparse index and a walk over a few headers; a damaged index is made anew by a walk over all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from chronik.core.errors import Corrupt
from chronik.core.log import aborted
from chronik.core.log.aborted import AbortedTransaction
from chronik.core.log.index import OFFSET_ENTRY_BYTES, RELATIVE_OFFSET_MAX, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from chronik.core.log.scan import SCAN_BYTES, ScannedBatch, headers
from chronik.core.ports import File, Files
from chronik.core.records.batch import CONTROL_BIT, HEADER_BYTES, BatchHeader
from chronik.core.types import NO_TIMESTAMP, UNKNOWN_OFFSET, Buffer

# Up to this size the active segment is learned by reading it and its indexes are not kept: most partitions are small,
# and 10,000 of them should not need 20,000 more files.
SMALL_BYTES = 64 * 1024
RECENT_BATCHES_MAX = 128
RECENT_BATCHES_DROPPED = 64


class Slice(NamedTuple):
    """Whole batches to be read: `length` bytes of `file` from `position` on.

    `start_offset` is the base offset of the first, `next_offset` where to go on. Bytes that an earlier process
    wrote need a check (`Log.check_slice`) before they are served. `cuts` is the segment's when this was planned.
    """

    file: File
    position: int
    length: int
    start_offset: int
    next_offset: int
    needs_check: bool
    cuts: int = 0


class RecentBatches:
    """The last batches of a segment, contiguous up to its end, the oldest first."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")

    def drop(self, count: int) -> None:
        """Forget the oldest."""
        del self.offsets[:count]
        del self.positions[:count]


class Segment:
    """Batches from `base_offset` up to `end_offset`."""

    __slots__ = (
        "_bytes_since_entry",
        "_files",
        "_first_timestamp",
        "_index",
        "_newest",
        "_recent",
        "_shown",
        "_times",
        "aborted",
        "base_offset",
        "created_ms",
        "cuts",
        "end_offset",
        "file",
        "has_markers",
        "inherited_bytes",
        "interval_bytes",
        "path",
        "rebuilt",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, interval_bytes: int, now_ms: int) -> None:
        self.path = f"{directory}/{base_offset:020}"
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.file = files.open(self.path + ".log")
        self.size = 0
        self.cuts = 0  # how often its end was cut off
        self.inherited_bytes = 0  # what stands below this position was written by an earlier process
        self.interval_bytes = interval_bytes  # about so many bytes lie between two index entries
        self.created_ms = now_ms
        self.rebuilt: list[str] = []  # index files found missing or damaged, and made anew
        self.has_markers = False  # as far as its headers were read in this process
        # Transactions whose abort markers are in this segment; None while that is in its file only (`load_aborted`).
        self.aborted: list[AbortedTransaction] | None = []
        self._files = files
        self._index: OffsetIndex | None = OffsetIndex(base_offset)
        self._times: TimeIndex | None = TimeIndex(base_offset)
        # How often it had been cut when the indexes were last shown, and their entries then.
        self._shown = (-1, 0, 0, 0)
        self._bytes_since_entry = 0
        self._first_timestamp: int | None = None
        self._newest = (NO_TIMESTAMP, UNKNOWN_OFFSET)  # the largest timestamp, and the last offset of its batch
        self._recent = RecentBatches()

    @classmethod
    def inherit(
        cls, files: Files, directory: str, base_offset: int, end_offset: int, interval_bytes: int, now_ms: int
    ) -> Segment:
        """A segment that an earlier process left. Its indexes are read when they are needed."""
        segment = cls(files, directory, base_offset, interval_bytes, now_ms)
        segment.size = segment.inherited_bytes = segment.file.size()
        segment.end_offset = end_offset
        if segment.size:
            segment._index = segment._times = None
        return segment

    def load_tail(self) -> None:
        """Learn the batches behind the last index entry, and with them where this segment ends."""
        size = self.size
        if size <= SMALL_BYTES:
            self.forget()
            self.relearn(0, size)
        else:
            self.newest()
            self.relearn(self._checked_position(self.index.last), size)

    def relearn(self, position: int, size: int) -> None:
        """Learn the batches from `position` on; what stands before it is known."""
        self.size = position
        self._bytes_since_entry = 0
        self._recent.drop(len(self._recent.offsets))
        self.end_offset = self.base_offset
        for _, header in headers(self.file, position, size, floor_offset=self.base_offset, chunk_bytes=SCAN_BYTES):
            self.learn_header(header)

    def forget(self) -> None:
        """Know nothing of the file's content: recovery learns it anew, batch by batch."""
        self.size, self.end_offset = 0, self.base_offset
        self._bytes_since_entry, self._first_timestamp = 0, None
        self._newest = (NO_TIMESTAMP, UNKNOWN_OFFSET)
        self._index, self._times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self.has_markers = False
        self._recent.drop(len(self._recent.offsets))

    # --- writing

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. On OSError nothing has changed."""
        self.file.append((batch,))
        self.learn(len(batch), base_offset, last_offset, max_timestamp)

    def learn(self, size: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Take note of the batch that stands where the known part of the file ends."""
        position = self.size
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._newest[0]:
            self._newest = (max_timestamp, last_offset)
        if self._bytes_since_entry > self.interval_bytes:
            self.index.append(last_offset, position)
            self.times.append(*self._newest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        recent = self._recent
        if base_offset != self.end_offset or len(recent.offsets) >= RECENT_BATCHES_MAX:
            # A gap is what compaction leaves; all before it goes, because what is remembered must be contiguous.
            recent.drop(RECENT_BATCHES_DROPPED if base_offset == self.end_offset else len(recent.offsets))
        recent.offsets.append(base_offset)
        recent.positions.append(position)
        self.size = position + size
        self.end_offset = last_offset + 1

    def learn_header(self, header: BatchHeader) -> None:
        """As `learn`, for a batch that was found in the file."""
        if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise Corrupt(f"{self.file.path} at {self.size}", f"offset {header.last_offset} is too far from the first")
        self.learn(header.size_bytes, header.base_offset, header.last_offset, header.max_timestamp)
        if header.attributes & CONTROL_BIT and header.producer_id >= 0:
            self.has_markers = True

    def has_room_for(self, size: int, last_offset: int, segment_bytes: int, index_bytes: int) -> bool:
        """Whether one more batch fits into the limits of the file format and of the settings."""
        if self.size == 0:
            return True
        if self.size + size > segment_bytes or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        if self._bytes_since_entry <= self.interval_bytes:
            return True  # no index entry is due
        # One place in the time index is kept for the entry that closing the segment adds.
        times_room = (len(self.times) + 2) * TIME_ENTRY_BYTES <= index_bytes
        return times_room and (len(self.index) + 1) * OFFSET_ENTRY_BYTES <= index_bytes

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """How long this segment has been filling: by the records' time if they have one, as Kafka counts."""
        if self.size == 0:
            return 0
        if self._first_timestamp is None:
            first = next(headers(self.file, 0, self.size, chunk_bytes=HEADER_BYTES))
            self._first_timestamp = first.header.max_timestamp
        if self._first_timestamp >= 0 and timestamp >= 0:
            return timestamp - self._first_timestamp
        return now_ms - self.created_ms

    def write_indexes(self) -> list[File]:
        """Put the indexes on disk, and say which files are to be synced."""
        self.times.append(*self.newest())
        written = []
        for suffix, content in ((".index", self.index.encode()), (".timeindex", self.times.encode())):
            file = self._files.open(self.path + suffix)
            file.truncate(0)
            file.append((content,))
            written.append(file)
        return [*written, *self.store_aborted()]

    def store_aborted(self) -> list[File]:
        """Put the aborted transactions on disk, and say which file is to be synced; none where there are none."""
        if self.aborted is None:
            return []  # nothing has changed since they were stored
        if not self.aborted:
            self._files.remove(self.path + aborted.SUFFIX)
            return []
        file = self._files.open(self.path + aborted.SUFFIX)
        file.truncate(0)
        file.append((aborted.encode(self.aborted),))
        return [file]

    def show_indexes(self) -> None:
        """Put on disk what the indexes have while the segment is written, for tools that look at it. Nothing here
        relies on that: after a crash the segment is learned anew, and closing it writes both files whole."""
        if self._index is None or self._times is None or self.size <= self.inherited_bytes:
            return  # nothing was written to it in this process
        cuts, *shown = self._shown
        now = [len(self._index), len(self._times), len(self.aborted or ())]
        if cuts == self.cuts and shown == now:
            return
        if cuts != self.cuts or now < shown:
            shown = [0, 0, 0]
        encoded = (
            (".index", self._index.encode(), OFFSET_ENTRY_BYTES),
            (".timeindex", self._times.encode(), TIME_ENTRY_BYTES),
        )
        for (suffix, content, entry_bytes), entries in zip(encoded, shown, strict=False):
            file = self._files.open(self.path + suffix)
            file.truncate(entries * entry_bytes)
            file.append((content[entries * entry_bytes :],))
            file.close()
        if now[2] > shown[2]:
            for file in self.store_aborted():
                file.close()
        self._shown = self.cuts, now[0], now[1], now[2]

    def truncate(self, end_offset: int) -> None:
        """Cut off the batch that holds `end_offset` and all behind it."""
        found = self.locate(end_offset) if self.size else None
        if found is None:
            return
        left = self._learned_up_to(found.position)  # first: what can fail has failed before anything is changed
        self.cuts += 1  # even if the cut fails: nothing of what was planned before can be relied on
        self.file.truncate(found.position)
        self._take_over(left)
        self.inherited_bytes = min(self.inherited_bytes, self.size)
        if self.aborted:
            self.aborted = [entry for entry in self.aborted if entry.last_offset < self.end_offset]

    def remove(self) -> None:
        """Take the segment off the disk. On OSError it is still there, and can be read."""
        for suffix in (".index", ".timeindex", aborted.SUFFIX, ".log"):
            self._files.remove(self.path + suffix)
        self.file.retire()

    # --- planning a read

    def plan_recent(self, start_offset: int, bound_offset: int, max_bytes: int, at_least_one: bool) -> Slice | None:
        """As `plan`, when the batch is among the remembered ones (`remembers`)."""
        offsets, positions = self._recent.offsets, self._recent.positions
        first = bisect_right(offsets, start_offset) - 1
        position = positions[first]
        last = bisect_left(offsets, bound_offset)
        end = positions[last] if last < len(positions) else self.size
        if end - position > max_bytes:
            last = bisect_right(positions, position + max_bytes) - 1
            if last <= first:
                if not at_least_one:
                    return None
                last = first + 1
            end = positions[last] if last < len(positions) else self.size
        next_offset = offsets[last] if last < len(offsets) else self.end_offset
        needs_check = position < self.inherited_bytes
        return Slice(self.file, position, end - position, offsets[first], next_offset, needs_check, self.cuts)

    def remembers(self, offset: int) -> bool:
        """Whether the batch with this offset is one of the latest."""
        return bool(self._recent.offsets) and self._recent.offsets[0] <= offset < self.end_offset

    def plan(self, found: ScannedBatch, bound_offset: int, max_bytes: int, at_least_one: bool) -> Slice | None:
        """Whole batches from `found` on, none that begins at or above `bound_offset`, within `max_bytes`."""
        start, limit = found.position, found.position + max_bytes
        end, next_offset = start, found.header.base_offset
        if bound_offset >= self.end_offset and limit >= self.size:
            end, next_offset = self.size, self.end_offset
        else:
            by_size, by_bound = self.index.floor_position(limit), self.index.floor(bound_offset - 1)
            entry = min(by_size, by_bound, key=lambda e: e[1]) if by_size and by_bound else None
            walk_from = self._checked_position(entry)
            for at, header in headers(self.file, max(walk_from, start), self.size, floor_offset=self.base_offset):
                end, next_offset = at, header.base_offset
                if header.base_offset >= bound_offset or at + header.size_bytes > limit:
                    break
                end, next_offset = at + header.size_bytes, header.next_offset
        if end <= start:
            if not at_least_one or found.header.base_offset >= bound_offset:
                return None
            end, next_offset = start + found.header.size_bytes, found.header.next_offset
        needs_check = start < self.inherited_bytes
        return Slice(self.file, start, end - start, found.header.base_offset, next_offset, needs_check, self.cuts)

    def locate(self, offset: int) -> ScannedBatch | None:
        """The first batch that ends at or above `offset`: the one that holds it, or the next one after a gap."""
        position = self._checked_position(self.index.floor(offset))
        for found in headers(self.file, position, self.size, floor_offset=self.base_offset):
            if found.header.last_offset >= offset:
                return found
        return None

    def locate_time(self, timestamp: int) -> ScannedBatch | None:
        """The first batch that has a record of this time or later."""
        if self.newest()[0] < timestamp:
            return None
        entry = self.times.before(timestamp)
        position = 0
        if entry is not None:
            found = self.locate(entry[1])
            if found is None or (found.header.max_timestamp, found.header.last_offset) != entry:
                self.rebuild(".timeindex")
                return self.locate_time(timestamp)
            position = found.position
        for found in headers(self.file, position, self.size, floor_offset=self.base_offset):
            if found.header.max_timestamp >= timestamp:
                return found
        return None

    def newest(self) -> tuple[int, int]:
        """The latest timestamp, and the last offset of the batch that brought it; (-1, -1) without any."""
        if self._times is None:
            self._load_times()
        return self._newest

    # --- indexes

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            content = self._read_beside(".index")
            self._index = None if content is None else OffsetIndex.decode(self.base_offset, content, self.size)
        return self._index if self._index is not None else self.rebuild(".index")[0]

    @property
    def times(self) -> TimeIndex:
        return self._times if self._times is not None else self._load_times()

    def _load_times(self) -> TimeIndex:
        content = self._read_beside(".timeindex")
        times = None if content is None else TimeIndex.decode(self.base_offset, content, self.end_offset)
        if times is None:
            return self.rebuild(".timeindex")[1]
        # The last entry decides about retention and about which segment a time is in: it is checked at once.
        timestamp, last_offset = times.last or (NO_TIMESTAMP, self.base_offset)
        found = self.locate(last_offset)
        if (
            found is None
            or found.header.max_timestamp != timestamp
            or (times.last and found.header.last_offset != last_offset)
        ):
            return self.rebuild(".timeindex")[1]
        if times.last:
            self._newest = times.last
        self._times = times
        return times

    def _read_beside(self, suffix: str) -> bytes | None:
        try:
            return self._files.read_all(self.path + suffix)
        except FileNotFoundError:
            return None

    def _checked_position(self, entry: tuple[int, int] | None) -> int:
        """The position an index entry names, after a look at the batch there; a wrong entry costs the whole index."""
        if entry is None:
            return 0
        last_offset, position = entry
        try:
            found = next(headers(self.file, position, self.size, chunk_bytes=HEADER_BYTES))
        except Corrupt:
            found = None
        if found is not None and found.header.last_offset == last_offset:
            return position
        index, _ = self.rebuild(".index")
        at = index.floor(last_offset)
        return at[1] if at is not None else 0

    def _learned_up_to(self, position: int) -> Segment:
        """This segment as it would be known if its file ended there."""
        directory, _, _ = self.path.rpartition("/")
        fresh = Segment(self._files, directory, self.base_offset, self.interval_bytes, self.created_ms)
        fresh.file = self.file
        fresh.relearn(0, position)
        return fresh

    def _take_over(self, fresh: Segment) -> None:
        """Know of the file's content what the other knows of it."""
        self.size, self.end_offset = fresh.size, fresh.end_offset
        self._bytes_since_entry, self._first_timestamp = fresh._bytes_since_entry, fresh._first_timestamp
        self._newest = fresh._newest
        self._index, self._times = fresh._index, fresh._times
        self._recent = fresh._recent

    def rebuild(self, suffix: str) -> tuple[OffsetIndex, TimeIndex]:
        """Make both indexes anew from the batches, because the one with this suffix is missing or damaged."""
        directory, _, _ = self.path.rpartition("/")
        fresh = Segment(self._files, directory, self.base_offset, self.interval_bytes, self.created_ms)
        for _, header in headers(self.file, 0, self.size, floor_offset=self.base_offset, chunk_bytes=SCAN_BYTES):
            fresh.learn_header(header)
        if fresh.end_offset > self.end_offset:
            raise Corrupt(
                self.file.path, f"ends at offset {fresh.end_offset}, the next segment begins at {self.end_offset}"
            )
        fresh.times.append(*fresh.newest())
        self._index, self._times = fresh.index, fresh.times
        self._newest = fresh.newest()
        self.rebuilt.append(self.path + suffix)
        self._files.replace(self.path + ".index", self._index.encode())
        self._files.replace(self.path + ".timeindex", self._times.encode())
        return self._index, self._times
