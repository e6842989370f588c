"""Waits for what only a look can tell: each has a predicate, and all are looked at again when there is news."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PredicateWaits:
    """Those that wait for the same source of news."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def wait_for(self, is_there: Callable[[], bool], timeout_ms: int) -> bool:
        """Until it is so, or False when the time is over."""
        if is_there():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = is_there
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return False
        finally:  # what waits for hours, in short waits, must not gather these
            self._waiting.pop(future, None)
        return True

    def look_again(self) -> None:
        """There is news."""
        for future, is_there in list(self._waiting.items()):
            if not future.done() and is_there():
                future.set_result(None)
