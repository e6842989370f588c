"""Where logs may begin: what was asked to be deleted may be gone, what was said to be gone stays so, and no more.

Nothing else moves the start of a log up. An answer to DeleteRecords is a promise of the leader that gave it, and of all
that lead after it.
"""

from __future__ import annotations

from chronik.core.types import TopicPartition
from chronik.sim.story import WorldStory

ANYWHERE = 2**62  # below the watermark: retention was asked for, or everything was to go


class Starts:
    """It is given what was asked and answered. Each method that finds a broken promise raises Violation."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._limits: dict[TopicPartition, int] = {}
        self._gone: dict[TopicPartition, dict[int, int]] = {}  # by leader epoch

    def asked(self, name: TopicPartition, offset: int) -> None:
        """What is below may be deleted from now on; -1: all that is safe."""
        self._limits[name] = max(self.limit(name), ANYWHERE if offset < 0 else offset)

    def limit(self, name: TopicPartition) -> int:
        """What is below may be gone."""
        return self._limits.get(name, 0)

    def deleted(self, name: TopicPartition, start_offset: int, leader_epoch: int) -> None:
        """The leader said that what is below is gone, here and wherever it is in sync."""
        starts = self._gone.setdefault(name, {})
        starts[leader_epoch] = max(starts.get(leader_epoch, 0), start_offset)

    def gone(self, name: TopicPartition, leader_epoch: int) -> int:
        """What is below must not be seen any more at a leader of this epoch. One of an earlier epoch, that has not
        heard that it leads no more, need not know."""
        return max((start for epoch, start in self._gone.get(name, {}).items() if epoch <= leader_epoch), default=0)

    def forget(self, name: TopicPartition) -> None:
        """A leader was elected that may not know: nothing of it is promised any more."""
        self._gone.pop(name, None)

    def begins(self, who: str, name: TopicPartition, start_offset: int, known_gone: int) -> None:
        """A leader said where its log begins; it was asked when `known_gone` was known."""
        if start_offset > self.limit(name):
            raise self._story.break_promise(
                f"{who}: {name} begins at {start_offset}, and only what is below {self.limit(name)} was to be deleted"
            )
        if start_offset < known_gone:
            raise self._story.break_promise(
                f"{who}: {name} begins at {start_offset}, and was said to be deleted up to {known_gone}"
            )

    def gave(self, who: str, name: TopicPartition, from_offset: int, known_gone: int) -> None:
        """A leader had something to give from this offset on."""
        if from_offset < known_gone:
            raise self._story.break_promise(
                f"{who}: {name} has something at {from_offset}, and was said to be deleted up to {known_gone}"
            )
