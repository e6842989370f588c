"""Up to where a log is on disk, as the checkpoint of recovery points is to say, and as it says.

A power cut may tear a segment and leave the next one, of which some was written by itself. So what lies in a later
segment counts only when the checkpoint says of the earlier ones that they are on disk. Recovery can then tell a torn
write, behind which nothing counts, from damage.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.core.log.segment import Segment


class RecoveryPoint:
    """One log's."""

    __slots__ = ("_stored", "offset")

    def __init__(self, stored: int = 0) -> None:
        self.offset = stored  # everything below was synced
        self._stored = stored

    def covers(self, segments: Sequence[Segment]) -> bool:
        """Whether what is synced counts at once, without being stored."""
        return len(segments) < 2 or segments[-1].base_offset <= self._stored

    def stored(self, offset: int) -> None:
        """The checkpoint says so, and is synced."""
        self._stored = offset

    def cut(self, offset: int) -> None:
        """The log ends here, or will."""
        self.offset, self._stored = min(self.offset, offset), min(self._stored, offset)
