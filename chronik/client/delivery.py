"""What became of each message that `chronik produce` sent: acknowledged at which offset, or not and why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

# Enough to find the cause; a load of a million refused messages is not to be listed.
POSITIONS_SHOWN_MAX = 5
RANGES_SHOWN_MAX = 3


@dataclass
class OffsetRanges:
    """Half-open ranges of offsets. Other producers may have written between ours, so one range is not enough."""

    ranges: list[list[int]] = field(default_factory=list)

    def add(self, offset: int) -> None:
        """Takes any order; acknowledgements nearly always come in that of the offsets, which is the fast way."""
        if self.ranges and self.ranges[-1][1] == offset:
            self.ranges[-1][1] += 1
        elif not self.ranges or offset > self.ranges[-1][1]:
            self.ranges.append([offset, offset + 1])
        else:
            self._insert(offset)

    def _insert(self, offset: int) -> None:
        self.ranges.append([offset, offset + 1])
        self.ranges.sort()
        merged: list[list[int]] = []
        for start, end in self.ranges:
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        self.ranges = merged

    def __str__(self) -> str:
        """First to last, both included, as people say it."""
        shown = [f"{start:,}" if end - start == 1 else f"{start:,} to {end - 1:,}" for start, end in self.ranges]
        if len(shown) > RANGES_SHOWN_MAX:
            shown = [*shown[:RANGES_SHOWN_MAX], f"and {len(shown) - RANGES_SHOWN_MAX} more ranges"]
        return ", ".join(shown)


@dataclass
class Failure:
    """All messages that were not acknowledged for one reason; the first few by their line or number."""

    reason: str
    messages: int = 0
    first_positions: list[int] = field(default_factory=list)


@dataclass
class PartitionTally:
    acknowledged: int = 0
    offsets: OffsetRanges = field(default_factory=OffsetRanges)


class Tally:
    """Counts what was sent and what came of it. A message is in exactly one of: acknowledged, failed, under way."""

    def __init__(self) -> None:
        self.sent = 0
        self.sent_bytes = 0
        self.partitions: dict[int, PartitionTally] = defaultdict(PartitionTally)
        self.failures: dict[str, Failure] = {}

    @property
    def acknowledged(self) -> int:
        return sum(partition.acknowledged for partition in self.partitions.values())

    @property
    def failed(self) -> int:
        return sum(failure.messages for failure in self.failures.values())

    def took(self, partition: int, offset: int | None) -> None:
        """One message was acknowledged; without acknowledgements asked for (acks=0) it has no known offset."""
        tally = self.partitions[partition]
        tally.acknowledged += 1
        if offset is not None:
            tally.offsets.add(offset)

    def lost(self, position: int, reason: str) -> None:
        """One message was not acknowledged. It may still have been stored: only the reason can tell."""
        failure = self.failures.setdefault(reason, Failure(reason))
        failure.messages += 1
        if len(failure.first_positions) < POSITIONS_SHOWN_MAX:
            failure.first_positions.append(position)

    def as_json(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "not_acknowledged": self.failed,
            "partitions": [
                {
                    "partition": number,
                    "acknowledged": tally.acknowledged,
                    "offsets": [{"start_offset": start, "end_offset": end} for start, end in tally.offsets.ranges],
                }
                for number, tally in sorted(self.partitions.items())
            ],
            "failures": [
                {"reason": failure.reason, "messages": failure.messages, "first": sorted(failure.first_positions)}
                for failure in self.failures.values()
            ],
        }
