"""Offsets that transactions have brought and no marker has decided yet, by producer (KIP-98).

An offset that was committed counts by its place in the log: a later one of the same partition, whether in another
transaction that has committed or in none, makes an earlier one void, though the earlier one's marker comes last
(KAFKA-5600). Compaction would leave only the later one, and a replay must come to the same. An offset that is void is
still pending: whether its transaction commits is not known, so a reader that wants stable offsets waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from chronik.core.machines.groups.offsets import CommittedOffset


class OffsetOwner(NamedTuple):
    """Whose offset: a group's, of a partition."""

    group_id: str
    topic: str
    partition: int


class PendingOffset(NamedTuple):
    place: int  # grows with the log
    committed: CommittedOffset
    is_void: bool = False  # a later one counts


class PendingOffsets:
    """All pending offsets of a machine."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetOwner, PendingOffset]] = {}
        self._producers: dict[str, set[int]] = {}  # by group
        self._last_place = 0

    def is_pending(self, owner: OffsetOwner) -> bool:
        return any(owner in self._by_producer[producer] for producer in self._producers.get(owner.group_id, ()))

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction is open that has an offset of this group."""
        return group_id in self._producers

    def of_group(self, group_id: str) -> set[OffsetOwner]:
        producers = self._producers.get(group_id, ())
        return {owner for one in producers for owner in self._by_producer[one] if owner.group_id == group_id}

    def of_producer(self, producer_id: int) -> list[tuple[OffsetOwner, PendingOffset]]:
        """What its transaction has brought, as long as no marker has decided about it."""
        return list(self._by_producer.get(producer_id, {}).items())

    def topics(self) -> set[tuple[str, bytes]]:
        """Every topic that an offset is pending for, with its id."""
        return {
            (owner.topic, pending.committed.topic_id)
            for offsets in self._by_producer.values()
            for owner, pending in offsets.items()
        }

    def of_topics(self, topics: Collection[tuple[str, bytes]]) -> Iterator[OffsetOwner]:
        for offsets in self._by_producer.values():
            for owner, pending in offsets.items():
                if (owner.topic, pending.committed.topic_id) in topics:
                    yield owner

    # --- changes, called by apply only

    def put(self, producer_id: int, owner: OffsetOwner, committed: CommittedOffset) -> None:
        self._last_place += 1
        self._by_producer.setdefault(producer_id, {})[owner] = PendingOffset(self._last_place, committed)
        self._producers.setdefault(owner.group_id, set()).add(producer_id)

    def overtaken(self, owner: OffsetOwner, place: int | None = None) -> None:
        """A later offset was committed: at that place, or (None) just now. Those before it count no longer."""
        for producer in self._producers.get(owner.group_id, ()):
            pending = self._by_producer[producer].get(owner)
            if pending is not None and (place is None or pending.place < place):
                self._by_producer[producer][owner] = pending._replace(is_void=True)

    def forget(self, owner: OffsetOwner) -> None:
        """It was deleted, in whichever transactions it is."""
        for producer in list(self._producers.get(owner.group_id, ())):
            offsets = self._by_producer[producer]
            if offsets.pop(owner, None) is not None:
                self._tidy(producer, owner.group_id)

    def end(self, producer_id: int) -> list[tuple[OffsetOwner, PendingOffset]]:
        """The producer's transaction has ended: what was pending in it, in the order of the log."""
        offsets = self._by_producer.pop(producer_id, {})
        for group_id in dict.fromkeys(owner.group_id for owner in offsets):
            self._leave(producer_id, group_id)
        return sorted(offsets.items(), key=lambda item: item[1].place)

    def _tidy(self, producer_id: int, group_id: str) -> None:
        offsets = self._by_producer[producer_id]
        if not any(owner.group_id == group_id for owner in offsets):
            self._leave(producer_id, group_id)
        if not offsets:
            del self._by_producer[producer_id]

    def _leave(self, producer_id: int, group_id: str) -> None:
        producers = self._producers[group_id]
        producers.discard(producer_id)
        if not producers:
            del self._producers[group_id]
