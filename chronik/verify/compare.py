"""What was sent against what was consumed: counts, shares, gaps, duplicates, reorderings. Pure, and linear in size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronik.verify.ledger import ACKNOWLEDGED, UNSENT

GAPS_SHOWN_MAX = 20


@dataclass(frozen=True)
class Gap:
    """Offsets [start_offset, end_offset) that were passed over."""

    start_offset: int
    end_offset: int


@dataclass(frozen=True)
class PartitionCount:
    """One partition, as its consumer saw it. Shares are of all that was consumed."""

    partition: int
    acknowledged: int
    consumed: int
    """Distinct messages."""
    share: float
    deviation: float
    """Of its count from that of an even spread, as a fraction of it."""
    first_offset: int | None
    last_offset: int | None
    gaps: int
    """Offsets between the first to be read and the last one given that were never given."""
    gap_ranges: tuple[Gap, ...]
    """The first of them."""
    redelivered: int
    """The same offset given again."""
    written_twice: int
    """The same message at another offset: a retry that the log took for a new one."""
    reordered: int
    """Given after a message that was sent later."""

    @property
    def duplicated(self) -> int:
        return self.redelivered + self.written_twice


@dataclass(frozen=True)
class Comparison:
    produced: int
    acknowledged: int
    consumed: int
    """Distinct messages of this run."""
    unacknowledged_consumed: int
    """Of these, the ones that were not acknowledged to the producer."""
    foreign: int
    """Messages of others in the same topic."""
    partitions: tuple[PartitionCount, ...]
    imbalance: float
    """How far the fullest partition is above an even share, as a fraction of it."""

    @property
    def missing(self) -> int:
        return self.produced - self.consumed

    @property
    def gaps(self) -> int:
        return sum(partition.gaps for partition in self.partitions)

    @property
    def duplicated(self) -> int:
        return sum(partition.duplicated for partition in self.partitions)

    @property
    def redelivered(self) -> int:
        return sum(partition.redelivered for partition in self.partitions)

    @property
    def written_twice(self) -> int:
        return sum(partition.written_twice for partition in self.partitions)

    @property
    def reordered(self) -> int:
        return sum(partition.reordered for partition in self.partitions)


class _Reader:
    """What is kept about a partition while its deliveries are walked."""

    __slots__ = ("consumed", "highest", "redelivered", "reordered", "seen", "start", "written_twice")

    def __init__(self, start: int) -> None:
        self.start = start
        self.seen = bytearray()  # by offset, from `start` on
        self.highest = -1  # the largest number so far
        self.consumed = self.redelivered = self.written_twice = self.reordered = 0

    def is_new(self, offset: int) -> bool:
        """Marks an offset as given. One before the start moves the start."""
        if offset < self.start:
            self.seen[0:0] = bytes(self.start - offset)
            self.start = offset
        at = offset - self.start
        if at >= len(self.seen):
            self.seen.extend(bytes(at + 1 - len(self.seen)))
        is_new = not self.seen[at]
        self.seen[at] = 1
        return is_new

    def gaps(self) -> tuple[int, tuple[Gap, ...]]:
        ranges: list[Gap] = []
        begin = self.seen.find(0)
        while begin >= 0 and len(ranges) < GAPS_SHOWN_MAX:
            end = self.seen.find(1, begin)  # the last one is always given
            ranges.append(Gap(self.start + begin, self.start + end))
            begin = self.seen.find(0, end)
        return self.seen.count(0), tuple(ranges)


def compare(
    states: Sequence[int],
    sent_to: Sequence[int],
    numbers: Sequence[int],
    partitions: Sequence[int],
    offsets: Sequence[int],
    starts: Mapping[int, int],
) -> Comparison:
    """`states` and `sent_to` are the ledger's, by number; the next three are what was consumed, in that order (a number
    beyond the ledger's is a message of others); `starts` are all partitions, with the offset to be read first."""
    readers = {partition: _Reader(start) for partition, start in starts.items()}
    seen = bytearray(len(states))
    foreign = 0
    for number, partition, offset in zip(numbers, partitions, offsets, strict=True):
        reader = readers[partition]
        is_new_offset = reader.is_new(offset)
        if not 0 <= number < len(seen):
            foreign += 1
        elif not is_new_offset:
            reader.redelivered += 1
        elif seen[number]:
            reader.written_twice += 1
        else:
            seen[number] = 1
            reader.consumed += 1
            if number < reader.highest:
                reader.reordered += 1
            else:
                reader.highest = number
    acknowledged = dict.fromkeys(starts, 0)
    untold = 0
    for number, state in enumerate(states):
        if state == ACKNOWLEDGED:
            if sent_to[number] in acknowledged:
                acknowledged[sent_to[number]] += 1
        elif seen[number]:
            untold += 1
    consumed = seen.count(1)
    even = consumed / len(readers) if readers else 0.0
    counts = tuple(
        _counted(partition, reader, acknowledged[partition], consumed, even) for partition, reader in readers.items()
    )
    return Comparison(
        produced=sum(state != UNSENT for state in states),
        acknowledged=sum(state == ACKNOWLEDGED for state in states),
        consumed=consumed,
        unacknowledged_consumed=untold,
        foreign=foreign,
        partitions=counts,
        imbalance=max((count.deviation for count in counts), default=0.0),
    )


def _counted(partition: int, reader: _Reader, acknowledged: int, consumed: int, even: float) -> PartitionCount:
    gaps, ranges = reader.gaps()
    first = reader.seen.find(1)
    return PartitionCount(
        partition=partition,
        acknowledged=acknowledged,
        consumed=reader.consumed,
        share=reader.consumed / consumed if consumed else 0.0,
        deviation=reader.consumed / even - 1 if even else 0.0,
        first_offset=None if first < 0 else reader.start + first,
        last_offset=None if first < 0 else reader.start + len(reader.seen) - 1,
        gaps=gaps,
        gap_ranges=ranges,
        redelivered=reader.redelivered,
        written_twice=reader.written_twice,
        reordered=reader.reordered,
    )
