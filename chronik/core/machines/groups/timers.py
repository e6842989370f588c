"""Everything in a groups machine that waits for time: one deadline per key.

Timers are set and cleared by facts like all other state; `due` and `next_deadline_ms` only read.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
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


class TimerKey(NamedTuple):
    """Whose timer."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Timers:
    """Deadlines by key, with the earliest at hand."""

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        # May hold entries that are out of date: those whose deadline is no longer the key's. The head never is.
        self._heap: list[tuple[int, TimerKey]] = []

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._deadlines

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        self._deadlines[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key))
        self._tidy()

    def clear(self, key: TimerKey) -> None:
        self._deadlines.pop(key, None)
        self._tidy()

    def clear_where(self, matches: Callable[[TimerKey], bool]) -> None:
        self._deadlines = {key: deadline_ms for key, deadline_ms in self._deadlines.items() if not matches(key)}
        self._tidy()

    def next_deadline_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> list[TimerKey]:
        """Keys whose time has come, the longest overdue first."""
        if not self._heap or self._heap[0][0] > now_ms:
            return []
        late = [(deadline_ms, key) for key, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]
        return [key for _, key in sorted(late)]

    def deadlines(self) -> dict[TimerKey, int]:
        return dict(self._deadlines)

    def _tidy(self) -> None:
        # Each heartbeat leaves an entry behind; they go when they reach the head, or all at once when most are stale.
        if len(self._heap) > 4 * len(self._deadlines) + 64:
            self._heap = [(deadline_ms, key) for key, deadline_ms in self._deadlines.items()]
            heapq.heapify(self._heap)
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
