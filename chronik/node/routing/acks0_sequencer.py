"""Keeps batches without a response (acks=0) in their order: those of one connection for one partition.

Nothing could put them in order again: no sequence tells a leader that one is missing, and their client does not hear of
a refusal. So the first one to a leader goes alone. That leader may not know yet that it leads, refuse it, and take the
next one; those behind it are held until it has been taken. What was refused goes again before what came later.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from chronik.api.context import PartitionBatch, PendingProduce
from chronik.core.replica.batch_order import Leadership
from chronik.wire.produce import PartitionAnswer


class Returned(NamedTuple):
    """A batch that is to go again, and what becomes of it if it cannot."""

    produce: PendingProduce
    batch: PartitionBatch
    answer: PartitionAnswer


class Acks0Sequencer:
    """Which batch goes next."""

    __slots__ = ("_held", "_refused", "_taken_by", "under_way")

    def __init__(self) -> None:
        self.under_way = 0  # all on one link
        self._taken_by: Leadership | None = None  # this leader has taken one, so it knows that it leads
        self._refused: list[Returned] = []  # in their order, and before all that are held
        self._held: deque[tuple[PendingProduce, PartitionBatch]] = deque()

    @property
    def has_refused(self) -> bool:
        return bool(self._refused)

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    def must_wait(self, leadership: Leadership | None) -> bool:
        """Whether others are ahead of one that would go there now."""
        is_known_to_lead = leadership is not None and leadership == self._taken_by
        return bool(self._refused or self._held or (self.under_way and not is_known_to_lead))

    def hold(self, produce: PendingProduce, batch: PartitionBatch) -> None:
        self._held.append((produce, batch))

    def refused(self, refused: Returned) -> None:
        """It has been sent and was not taken: it is to go again."""
        self._taken_by = None
        self._refused.append(refused)

    def taken(self, leadership: Leadership | None) -> list[Returned]:
        """One was taken. Returns those that it has overtaken: they must not come behind it."""
        self._taken_by = leadership
        overtaken, self._refused = self._refused, []
        return overtaken

    def let_go(self) -> list[tuple[PendingProduce, PartitionBatch]]:
        """All that wait, in their order; the caller tries each again."""
        waiting = [(one.produce, one.batch) for one in self._refused]
        waiting += self._held
        self._refused = []
        self._held.clear()
        return waiting
