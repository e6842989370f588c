"""How long to wait for messages that are missing: until it is certain that they cannot come any more.

A consumer that has read every partition to its end gets nothing more unless that end moves. It does not where nothing
produces and all that is in the log can be read. One look may come too early: two that say the same, after nothing came
for as long as makes a stall, are believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from chronik.verify.pulse import STALL_S

# Where it is not known what is in a log and cannot be read yet: in half a minute a Kafka gives up a follower that does
# not come (replica.lag.time.max.ms), and what the others have can be read.
UNSEEN_S = 40.0


class Ends(NamedTuple):
    """Where each partition ends for consumers, and whether it is known that its log has nothing beyond."""

    offsets: Mapping[int, int]
    is_all_visible: bool


class Patience:
    """Asked after each poll that gave nothing."""

    def __init__(self, partitions: int, look: Callable[[], Ends]) -> None:
        self._partitions = partitions
        self._look = look
        self._before: Mapping[int, int] | None = None  # the ends at the last look, if all of them had been reached

    def is_over(self, quiet_s: float, reached: Mapping[int, int]) -> bool:
        """Whether waiting is in vain: nothing came for so long, and each partition has been read up to there."""
        if quiet_s < STALL_S:
            return False
        before, self._before = self._before, None
        ends = self._look()
        if quiet_s < UNSEEN_S and not ends.is_all_visible:
            return False
        if len(ends.offsets) < self._partitions or any(reached[number] < end for number, end in ends.offsets.items()):
            return False
        self._before = dict(ends.offsets)
        return before == self._before
