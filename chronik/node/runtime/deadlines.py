"""Everything on this node that waits for time, on one timer of the event loop."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable

from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

COMPACT_FROM = 1024  # below this, cancelled entries are not worth sweeping out


class Deadline:
    """Something to do at a time, unless it is cancelled first."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action


class Deadlines:
    """A heap of deadlines; the loop has one timer, for the earliest."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> None:
        self._loop = loop
        self._metrics = metrics
        self._heap: list[tuple[float, int, Deadline]] = []  # by time, and those of one time as they were made
        self._made = 0
        self._cancelled = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def after_ms(self, delay_ms: int, action: Callable[[], None]) -> Deadline:
        deadline, at = Deadline(action), self._loop.time() + max(0, delay_ms) / 1000
        self._made += 1
        heapq.heappush(self._heap, (at, self._made, deadline))
        if self._timer is None or at < self._timer_at:
            self._set_timer()
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        if deadline.action is None:
            return
        deadline.action = None
        self._cancelled += 1  # or, if it is due in this very turn, one too many: compacting a little early is no harm
        if self._cancelled > COMPACT_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0]
        self._timer = self._loop.call_at(self._timer_at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        due: list[Deadline] = []
        while self._heap and (self._heap[0][2].action is None or self._heap[0][0] <= now):
            deadline = heapq.heappop(self._heap)[2]
            if deadline.action is None:
                self._cancelled -= 1
            else:
                due.append(deadline)
        if self._heap:
            self._set_timer()
        for deadline in due:
            action, deadline.action = deadline.action, None
            if action is not None:  # not cancelled by one of those before it
                self._act(action)

    def _act(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            self._metrics.faults += 1
            log.exception("fault at a deadline")  # the others' time is up as well, and they must hear of it

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()
