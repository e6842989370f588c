"""Everything in a groups machine that waits for time: one deadline per key.

Timers are set and cleared by facts like all other state; `due` and `next_deadline_ms` only read.
"""

from __future__ import annotations

import heapq
from enum import StrEnum
from typing import NamedTuple


class TimerKind(StrEnum):
    """What happens when the timer fires."""

    SESSION = "session"  # a member was silent for too long
    JOIN = "join"  # a classic group waited long enough for its members to join
    SYNC = "sync"  # a classic group waited long enough for its members to ask for their assignment
    REVOKE = "revoke"  # a member of a consumer group took too long to give partitions up
    RETENTION = "retention"  # time to look for offsets that have expired
    LOADED = "loaded"  # the machine was replayed: its members get a fresh session


_OF_THE_MACHINE = (TimerKind.RETENTION, TimerKind.LOADED)


class TimerKey(NamedTuple):
    """Whose timer."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""

    @property
    def owner(self) -> str | None:
        """The group it belongs to; None for the machine's own: a group may have any name, also an empty one."""
        return None if self.kind in _OF_THE_MACHINE else self.group_id


class Timers:
    """Deadlines by key, with the earliest at hand."""

    def __init__(self) -> None:
        self._by_owner: dict[str | None, dict[TimerKey, int]] = {}
        self._count = 0
        # May hold entries that are out of date: those whose deadline is no longer the key's. The head never is.
        self._heap: list[tuple[int, TimerKey]] = []

    def __contains__(self, key: TimerKey) -> bool:
        return self._deadline_ms(key) is not None

    def _deadline_ms(self, key: TimerKey) -> int | None:
        of_owner = self._by_owner.get(key.owner)
        return None if of_owner is None else of_owner.get(key)

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        of_owner = self._by_owner.setdefault(key.owner, {})
        self._count += key not in of_owner
        of_owner[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key))
        self._tidy()

    def clear(self, key: TimerKey) -> None:
        of_owner = self._by_owner.get(key.owner, {})
        if of_owner.pop(key, None) is not None:
            self._count -= 1
            if not of_owner:
                del self._by_owner[key.owner]
            self._tidy()

    def clear_group(self, group_id: str) -> None:
        """All timers of a group."""
        self._count -= len(self._by_owner.pop(group_id, ()))
        self._tidy()

    def next_deadline_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> list[TimerKey]:
        """Keys whose time has come, the longest overdue first; of one owner only: others are due when those are done
        with."""
        if not self._heap or self._heap[0][0] > now_ms:
            return []
        of_owner = self._by_owner[self._heap[0][1].owner]
        return [key for _, key in sorted((at_ms, key) for key, at_ms in of_owner.items() if at_ms <= now_ms)]

    def deadlines(self) -> dict[TimerKey, int]:
        return {key: at_ms for of_owner in self._by_owner.values() for key, at_ms in of_owner.items()}

    def _tidy(self) -> None:
        # Each heartbeat leaves an entry behind; they go when they reach the head, or all at once when most are stale.
        if len(self._heap) > 4 * self._count + 64:
            self._heap = [(at_ms, key) for key, at_ms in self.deadlines().items()]
            heapq.heapify(self._heap)
        while self._heap and self._deadline_ms(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
