"""Long work in short steps: how the core takes a large batch apart without holding up the event loop.

A function that may take long is a generator. Between two steps it yields: None when others may run now, or a `Work`,
a piece that needs nothing but the bytes it was given, so that it can be done on a thread. Its driver lets
others run, and has the `Work` done elsewhere (node/replication/replicas.py); or does neither, with `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

# What a step may take: of records, this many are read in well under a millisecond.
RECORDS_A_STEP = 500


class Work(Generic[T]):
    """A piece of work on bytes in memory, done once: by `run`, on any thread, or when its result is wanted."""

    __slots__ = ("_do", "_is_done", "_problem", "_result")

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._is_done = False
        self._problem: Exception | None = None
        self._result: T | None = None

    def run(self) -> None:
        """Do it. What goes wrong is kept for the one that wants the result."""
        try:
            self._result = self._do()
        except Exception as problem:
            self._problem = problem
        self._is_done = True

    def result(self) -> T:
        if not self._is_done:
            self.run()
        if self._problem is not None:
            raise self._problem
        return self._result  # type: ignore[return-value]  # it is done, so this is a T


Steps: TypeAlias = Generator["Work[Any] | None", None, T]


def finish(steps: Steps[T]) -> T:
    """All steps at once: for what is known to be small, and where nothing else is to run."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what a generator of this type returns


class Unfinished(NamedTuple, Generic[T]):
    """Work that took more than one step: what it yielded first, and what is left of it."""

    step: Work[Any] | None
    steps: Steps[T]


class Finished(NamedTuple, Generic[T]):
    """Work that was over with its first step."""

    value: T


def begin(steps: Steps[T]) -> Finished[T] | Unfinished[T]:
    """Take the first step. Mostly that is all."""
    try:
        return Unfinished(next(steps), steps)
    except StopIteration as end:
        return Finished(end.value)
