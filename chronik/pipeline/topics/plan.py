"""What to read: offsets of partitions as a stream keeps them, how much of them now, and in how many pieces. Pure."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chronik.pipeline.topics.client import ReadPartition


@dataclass(frozen=True)
class OffsetRange:
    """Records of one partition, for one task."""

    partition: ReadPartition
    topic_id: uuid.UUID | None
    start_offset: int
    end_offset: int

    def __len__(self) -> int:
        return self.end_offset - self.start_offset


@dataclass(frozen=True)
class ReadOffsets:
    """How far each partition has been read, and which topic it was: a name can be given to a new topic."""

    by_partition: Mapping[ReadPartition, int]
    topic_ids: Mapping[str, uuid.UUID | None]
    first: Mapping[ReadPartition, int] = field(default_factory=dict)
    """Where the stream began, in the offsets it began with and in the end of its first micro-batch. Spark keeps that
    end, but not the start: it asks for it again when the micro-batch is run again, and it may have moved by then."""

    @property
    def is_first(self) -> bool:
        """Whether nothing has been read yet."""
        return self.first == self.by_partition

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it in a checkpoint: dicts of strings and numbers. The same offsets give the same text."""
        topics: dict[str, Any] = {}
        for partition, offset in sorted(self.by_partition.items()):
            topic_id = self.topic_ids.get(partition.topic)
            kept = topics.setdefault(partition.topic, {"id": str(topic_id or ""), "offsets": {}})
            kept["offsets"][str(partition.number)] = offset
        for partition, offset in sorted(self.first.items()):
            topics[partition.topic].setdefault("first", {})[str(partition.number)] = offset
        return topics

    @classmethod
    def from_json(cls, topics: Mapping[str, Any]) -> ReadOffsets:
        try:
            offsets = _numbers({topic: kept["offsets"] for topic, kept in topics.items()})
            first = _numbers({topic: kept.get("first", {}) for topic, kept in topics.items()})
            ids = {topic: uuid.UUID(kept["id"]) if kept["id"] else None for topic, kept in topics.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise ValueError(f"the checkpoint is not one of this source: {topics!r}") from problem
        return cls(offsets, ids, first)


def _numbers(topics: Mapping[str, Mapping[str, Any]]) -> dict[ReadPartition, int]:
    return {
        ReadPartition(topic, int(number)): int(offset)
        for topic, kept in topics.items()
        for number, offset in kept.items()
    }


def rate_limited(
    start: Mapping[ReadPartition, int], latest: Mapping[ReadPartition, int], rows_max: int
) -> dict[ReadPartition, int]:
    """Where to end so that at most `rows_max` offsets are read, each partition in proportion to what it has.

    Every partition that has something gets a turn sooner or later: the rounding favours the one that is due most.
    """
    waiting = {partition: max(end - start.get(partition, 0), 0) for partition, end in latest.items()}
    total = sum(waiting.values())
    if total <= rows_max:
        return {partition: start.get(partition, 0) + size for partition, size in waiting.items()}
    shares = {partition: size * rows_max / total for partition, size in waiting.items()}
    given = {partition: math.floor(share) for partition, share in shares.items()}
    left = rows_max - sum(given.values())
    by_due = sorted(
        shares, key=lambda partition: (given[partition] - shares[partition], -waiting[partition], partition)
    )
    for partition in by_due[:left]:
        given[partition] += given[partition] < waiting[partition]
    return {partition: start.get(partition, 0) + given[partition] for partition in latest}


def split(ranges: Sequence[OffsetRange], pieces_min: int | None) -> list[OffsetRange]:
    """The ranges that hold something, cut so that there are about as many as wanted, of about the same size."""
    full = [each for each in ranges if len(each) > 0]
    if pieces_min is None or len(full) >= pieces_min:
        return full
    total = sum(map(len, full))
    pieces: list[OffsetRange] = []
    for each in full:
        count = min(max(round(pieces_min * len(each) / total), 1), len(each))
        cuts = [each.start_offset + len(each) * number // count for number in range(count + 1)]
        pieces += [OffsetRange(each.partition, each.topic_id, begin, end) for begin, end in itertools.pairwise(cuts)]
    return pieces
