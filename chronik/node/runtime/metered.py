"""How long a coroutine computes, without the time that it waits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """Awaited, it is the coroutine; `spent` is given the seconds of each of its steps."""

    def __init__(self, work: Coroutine[Any, Any, T], now: Callable[[], float], spent: Callable[[float], None]) -> None:
        self._work = work
        self._now = now
        self._spent = spent

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            began = self._now()
            try:
                waited_for = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._spent(self._now() - began)
            try:
                step = partial(self._work.send, (yield waited_for))
            except BaseException as problem:  # cancelled, too: it is the coroutine's to end
                step = partial(self._work.throw, problem)
