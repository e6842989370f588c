"""The two sparse indexes of a segment, in Kafka's bytes: from offset to file position, from time to offset.

Both hold columns of machine integers. They are complete in memory while the segment is written, go to disk when
it is closed, and carry no checksum there: `decode` refuses what cannot be right, and the segment checks each
entry it uses against the batch the entry leads to.

    .index      relative last offset int32, position int32        of a batch, about one every index.interval.bytes
    .timeindex  timestamp int64, relative last offset int32       'no batch up to this offset has a later timestamp'
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice
from operator import lt

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
RELATIVE_OFFSET_MAX = 2**31 - 1


class OffsetIndex:
    """Last offset and position of some batches, both growing."""

    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, last_offset: int, position: int) -> None:
        self._offsets.append(last_offset - self.base_offset)
        self._positions.append(position)

    def floor(self, offset: int) -> tuple[int, int] | None:
        """The entry with the greatest offset that is not above `offset`."""
        at = bisect_right(self._offsets, offset - self.base_offset) - 1
        return self._entry(at)

    def floor_position(self, position: int) -> tuple[int, int] | None:
        """The entry with the greatest position that is not above `position`."""
        return self._entry(bisect_right(self._positions, position) - 1)

    @property
    def last(self) -> tuple[int, int] | None:
        return self._entry(len(self._offsets) - 1)

    def _entry(self, at: int) -> tuple[int, int] | None:
        return (self.base_offset + self._offsets[at], self._positions[at]) if at >= 0 else None

    def truncate(self, end_offset: int) -> None:
        """Forget entries for offsets from `end_offset` on."""
        at = bisect_right(self._offsets, end_offset - 1 - self.base_offset)
        del self._offsets[at:]
        del self._positions[at:]

    def encode(self) -> bytes:
        columns = array("i", bytes(len(self._offsets) * OFFSET_ENTRY_BYTES))
        columns[0::2] = self._offsets
        columns[1::2] = self._positions
        return _big_endian(columns).tobytes()

    @classmethod
    def decode(cls, base_offset: int, content: bytes, segment_bytes: int) -> OffsetIndex | None:
        """None when these bytes cannot be the index of a segment of this size."""
        if len(content) % OFFSET_ENTRY_BYTES:
            return None
        columns = _big_endian(array("i", content))
        index = cls(base_offset)
        index._offsets, index._positions = columns[0::2], columns[1::2]
        if len(index):
            in_range = index._offsets[0] >= 0 and index._positions[0] >= 0 and index._positions[-1] < segment_bytes
            if not (in_range and _is_growing(index._offsets) and _is_growing(index._positions)):
                return None
        return index


class TimeIndex:
    """Timestamps and the last offset of the batch that brought each of them, both growing."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, timestamp: int, last_offset: int) -> None:
        """Kafka's rule: an entry only when time has moved on since the last one."""
        if timestamp >= 0 and (not self._timestamps or timestamp > self._timestamps[-1]):
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset - self.base_offset)

    def before(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry with a timestamp below this one: what is up to its offset is too early."""
        return self._entry(bisect_right(self._timestamps, timestamp - 1) - 1)

    @property
    def last(self) -> tuple[int, int] | None:
        return self._entry(len(self._offsets) - 1)

    def _entry(self, at: int) -> tuple[int, int] | None:
        return (self._timestamps[at], self.base_offset + self._offsets[at]) if at >= 0 else None

    def truncate(self, end_offset: int) -> None:
        at = bisect_right(self._offsets, end_offset - 1 - self.base_offset)
        del self._timestamps[at:]
        del self._offsets[at:]

    def encode(self) -> bytes:
        halves = array("i", _big_endian(array("q", self._timestamps)).tobytes())
        columns = array("i", bytes(len(self._offsets) * TIME_ENTRY_BYTES))
        columns[0::3] = halves[0::2]
        columns[1::3] = halves[1::2]
        columns[2::3] = _big_endian(array("i", self._offsets))
        return columns.tobytes()

    @classmethod
    def decode(cls, base_offset: int, content: bytes, end_offset: int) -> TimeIndex | None:
        """None when these bytes cannot be the time index of a segment that ends at this offset."""
        if len(content) % TIME_ENTRY_BYTES:
            return None
        columns = array("i", content)
        halves = array("i", bytes(len(content) // TIME_ENTRY_BYTES * 8))
        halves[0::2] = columns[0::3]
        halves[1::2] = columns[1::3]
        index = cls(base_offset)
        index._timestamps = _big_endian(array("q", halves.tobytes()))
        index._offsets = _big_endian(columns[2::3])
        if len(index):
            in_range = (
                index._timestamps[0] >= 0 and index._offsets[0] >= 0 and index._offsets[-1] < end_offset - base_offset
            )
            if not (in_range and _is_growing(index._timestamps) and _is_growing(index._offsets)):
                return None
        return index


def _big_endian(column: array[int]) -> array[int]:
    """Kafka's byte order from the machine's, or back. In place."""
    if sys.byteorder == "little":
        column.byteswap()
    return column


def _is_growing(column: Iterable[int]) -> bool:
    return all(map(lt, column, islice(column, 1, None)))
