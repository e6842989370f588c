"""Drives what takes long in the core (core/records/steps.py): in short steps between which everyone else runs, and the
pieces that are only bytes on a thread.

What clients ask for is done one at a time: an unpacked batch may take 128 MB.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from chronik.core.errors import Code, Refused
from chronik.core.ports import Files
from chronik.core.records.steps import Unfinished, Work

T = TypeVar("T")

WAITING_MAX = 200  # more are refused: a client can ask faster than this can be done


class LongWork:
    """The long work of a node."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def wait_for_step(self, step: Work[Any] | None) -> None:
        """Let others run, and have this done meanwhile."""
        if step is None:
            await asyncio.sleep(0)
        else:
            await self._files.run_later(step.run)

    async def wait_for_rest(self, begun: Unfinished[T], *, may_refuse: bool = True) -> T:
        """What comes out of it in the end, when its turn has come. Raises Refused, and what it raises itself.

        What has taken no memory yet, and holds up the connection it came by, need not be refused: it waits.
        """
        if may_refuse and self._waiting >= WAITING_MAX:
            raise Refused(Code.REQUEST_TIMED_OUT, f"{WAITING_MAX} others wait for a large batch to be looked through")
        self._waiting += 1
        try:
            async with self._turn:
                step = begun.step
                while True:
                    await self.wait_for_step(step)
                    try:
                        step = next(begun.steps)
                    except StopIteration as end:
                        return end.value  # type: ignore[no-any-return]  # what a generator of this type returns
        finally:
            self._waiting -= 1
