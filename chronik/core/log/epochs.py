"""Which leader epoch began at which offset (KIP-101): what replicas compare to find where their logs part.

The file beside the segments is Kafka's `leader-epoch-checkpoint`: version 0, the number of entries, then a line
'epoch start_offset' each. It has no checksum, so it is believed only where the batches say the same; it can always
be made anew from them. An epoch without a batch yet is not written.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import NamedTuple

from chronik.core.types import NO_EPOCH, UNKNOWN_OFFSET

CHECKPOINT_NAME = "leader-epoch-checkpoint"


class EpochStart(NamedTuple):
    """A leader epoch and its first offset."""

    epoch: int
    start_offset: int


class Epochs:
    """Epochs in order; both numbers grow from entry to entry."""

    __slots__ = ("_entries", "is_stored")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._entries = entries or []
        self.is_stored = True  # whether the file has every entry that has a batch

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """A leader begins here. Entries that contradict it are of a history that did not happen."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} from offset {start_offset}")
        if self._entries and self._entries[-1].epoch == epoch and start_offset >= self._entries[-1].start_offset:
            return
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        self.is_stored = False

    def at(self, offset: int) -> int:
        """The epoch of the batch at `offset`."""
        place = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[place].epoch if place >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` and where it ends; (-1, -1) when nothing can be said (KIP-101, KIP-279)."""
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, UNKNOWN_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[higher].start_offset
        # Below the first entry the records are gone already: the follower is sent to where ours begin.
        return (self._entries[higher - 1].epoch if higher else epoch), end_offset

    def truncate(self, end_offset: int) -> None:
        """Forget the epochs that begin at or above `end_offset`."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.is_stored = False

    def advance(self, start_offset: int) -> None:
        """Forget what lies wholly below `start_offset`; the epoch at it now begins there."""
        place = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if place < 0 or (place == 0 and self._entries[0].start_offset == start_offset):
            return
        self._entries[: place + 1] = [EpochStart(self._entries[place].epoch, start_offset)]
        self.is_stored = False

    def encode(self, end_offset: int) -> bytes:
        """The file's content: every epoch that begins below `end_offset`."""
        entries = [entry for entry in self._entries if entry.start_offset < end_offset]
        lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> Epochs | None:
        """None when this is not exactly what `encode` writes."""
        lines = content.decode("ascii", "replace").split("\n")
        try:
            entries = [EpochStart(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines[2:-1])]
        except ValueError:
            return None
        epochs = cls(entries)
        pairs = itertools.pairwise(entries)
        is_growing = all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairs)
        return epochs if is_growing and epochs.encode(2**63) == content else None
