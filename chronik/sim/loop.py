"""An event loop without a world: time is a number that jumps to the next timer, and nothing comes from outside.

Everything that happens belongs to a process, found by a context variable that tasks and callbacks inherit. So a whole
node can be killed (nothing of it ever runs again) or paused (all of it waits, in order) in the middle of anything.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

TURNS_WITHOUT_TIME_MAX = 20_000  # more than this is a loop that spins
RESOLUTION_S = 1e-9  # timers that are no further apart are due together
CANCELLED_TIMERS_MAX = 50  # more, and more than half of all, are thrown out


class SpinError(Exception):
    """The world does not get on: it spins, or nothing will ever happen again."""


class SimProcess:
    """What can be killed, paused and resumed as one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.has_run = False  # something of it has happened since it was last checked
        self.deferred: list[asyncio.Handle] = []  # what would have run while it was paused
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_paused

    def kill(self) -> None:
        self.is_alive = False
        self.deferred.clear()
        self.forget_tasks()

    def forget_tasks(self) -> None:
        """They will never end, and that is meant: asyncio is not to complain when they are collected."""
        for task in self.tasks:
            cast(Any, task)._log_destroy_pending = False


PROCESS: contextvars.ContextVar[SimProcess] = contextvars.ContextVar("process")


class _Handle(events.Handle):
    """What is to be called soon. asyncio makes it in three calls; here that is where a world's time goes."""

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], loop: SimLoop, context: contextvars.Context | None
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _TimerHandle(events.TimerHandle):
    """What is to be called at a time."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True


class SimLoop(asyncio.BaseEventLoop):
    """Runs what is due, then moves the clock to what is due next. Timers of one moment go off in the order in which
    they were set."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._soon: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, Any]] = []  # a heap
        self._timer_count = 0  # ever
        self._cancelled_timers = 0  # of those in the heap
        self._turns_without_time = 0
        self.before_time_passes: Callable[[], None] = lambda: None
        self.set_task_factory(cast(Any, _make_task))
        self.set_debug(False)

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        """One turn: what is due now, and nothing that comes of it."""
        soon, timers = self._soon, self._timers
        if self._cancelled_timers > CANCELLED_TIMERS_MAX and self._cancelled_timers * 2 > len(timers):
            timers[:] = [timer for timer in timers if not timer[2]._cancelled]
            heapq.heapify(timers)
            self._cancelled_timers = 0
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if soon or cast(Any, self)._stopping or (timers and timers[0][0] <= self._now):
            self._turns_without_time += 1
            if self._turns_without_time > TURNS_WITHOUT_TIME_MAX:
                raise SpinError(f"{TURNS_WITHOUT_TIME_MAX} turns of the loop, and no time has passed")
        elif timers:
            self._turns_without_time = 0
            self.before_time_passes()
            self._now = timers[0][0]
        else:
            raise SpinError("nothing will ever happen again")
        due = self._now + RESOLUTION_S
        while timers and timers[0][0] < due:
            timer = heapq.heappop(timers)[2]
            if timer._cancelled:
                self._cancelled_timers -= 1
            else:
                timer._scheduled = False
                soon.append(timer)
        for _ in range(len(soon)):
            handle: Any = soon.popleft()
            if handle._cancelled:
                continue
            context = handle._context
            process = context.get(PROCESS)
            if process is not None:
                if process.is_paused or not process.is_alive:
                    if process.is_alive:
                        process.deferred.append(handle)
                    continue
                process.has_run = True
            try:
                context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as problem:  # as asyncio does it
                self.call_exception_handler(
                    {"message": f"Exception in callback {handle!r}", "exception": problem, "handle": handle}
                )

    def _timer_handle_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """Called by a timer that is cancelled."""
        if cast(Any, timer)._scheduled:
            self._cancelled_timers += 1

    def resume(self, process: SimProcess) -> None:
        """All that would have happened to a paused process happens now, in the order in which it would have."""
        process.is_paused = False
        self._soon.extend(process.deferred)
        process.deferred.clear()

    def outside(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do this later, as the deed of no task: it happens whatever dies until then."""
        self.call_later(delay_s, action, context=contextvars.Context())

    def call_soon(  # type: ignore[override]  # a plain callable is all that is ever given
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("the world has ended")
        handle = _Handle(callback, args, self, context)
        self._soon.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("the world has ended")
        timer = _TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def close(self) -> None:
        super().close()
        self._soon.clear()
        self._timers.clear()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("there are no threads in this world")

    def _write_to_self(self) -> None:
        raise RuntimeError("there are no threads in this world")


def _make_task(loop: SimLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    context: contextvars.Context | None = options.get("context")
    process = PROCESS.get(None) if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks.append(task)
    return task
