"""An event loop without a world: time is a number that jumps to the next timer, and nothing comes from outside.

Everything that happens belongs to a process, found by a context variable that tasks and callbacks inherit. So a whole
node can be killed (nothing of it ever runs again) or paused (all of it waits, in order) in the middle of anything.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any, cast

TURNS_WITHOUT_TIME_MAX = 20_000  # more than this is a loop that spins


class SpinError(Exception):
    """The world does not get on: it spins, or nothing will ever happen again."""


class SimProcess:
    """What can be killed, paused and resumed as one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.has_run = False  # something of it has happened since whoever is interested looked last
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


def _may_run(handle: asyncio.Handle) -> bool:
    context: contextvars.Context = cast(Any, handle)._context
    process = context.get(PROCESS)
    if process is None:
        return True
    if process.is_running:
        process.has_run = True
        return True
    if process.is_alive:
        process.deferred.append(handle)
    return False


class _Handle(events.Handle):
    def _run(self) -> None:
        if _may_run(self):
            super()._run()


class _TimerHandle(events.TimerHandle):
    def _run(self) -> None:
        if _may_run(self):
            super()._run()


class _Selector:
    """Where a real loop waits for sockets, this one lets time pass."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        self._loop.turn(timeout)
        return []

    def close(self) -> None:
        pass


class SimLoop(asyncio.BaseEventLoop):
    """Runs what is due, then moves the clock to what is due next."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _Selector(self)
        self._clock_resolution = 1e-9
        self._turns_without_time = 0
        self.turns = 0
        self.before_time_passes: Callable[[], None] = lambda: None
        self.set_task_factory(cast(Any, _make_task))
        self.set_debug(False)

    def time(self) -> float:
        return self._now

    def turn(self, timeout: float | None) -> None:
        """Called once a turn: `timeout` 0 means that something is due now."""
        self.turns += 1
        if timeout is None:
            raise SpinError("nothing will ever happen again")
        if timeout <= 0:
            self._turns_without_time += 1
            if self._turns_without_time > TURNS_WITHOUT_TIME_MAX:
                raise SpinError(f"{TURNS_WITHOUT_TIME_MAX} turns of the loop, and no time has passed")
            return
        self._turns_without_time = 0
        self.before_time_passes()
        scheduled: list[asyncio.TimerHandle] = cast(Any, self)._scheduled
        self._now = max(self._now, scheduled[0].when())

    def resume(self, process: SimProcess) -> None:
        """All that would have happened to a paused process happens now, in the order in which it would have."""
        process.is_paused = False
        cast(Any, self)._ready.extend(process.deferred)
        process.deferred.clear()

    def outside(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do this later, as nobody's deed: it happens whoever dies until then."""
        self.call_later(delay_s, action, context=contextvars.Context())

    def _call_soon(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        cast(Any, self)._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # a plain callable is all that is ever given
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(cast(Any, self)._scheduled, timer)
        cast(Any, timer)._scheduled = True
        return timer

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("there are no threads in this world")

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list  # nothing comes from outside

    def _write_to_self(self) -> None:
        raise RuntimeError("there are no threads in this world")


def _make_task(loop: SimLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    context = options.get("context") or contextvars.copy_context()
    process = context.get(PROCESS)
    if process is not None:
        process.tasks.append(task)
    return task
