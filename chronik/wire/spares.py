"""Memory of large requests that are done with, kept for those to come.

New memory must be zeroed and its pages brought in, which costs as much as reading a request into it. A request's memory
comes back here when the request is whole; it is free when there is no view on it any more.
"""

from __future__ import annotations

import sys

SPARE_BYTES = 1280 * 1024  # a batch of 1 MB, as clients send them at the most by default, and what is around it
SPARES_MAX = 8
_UNUSED = 2  # references: the list here, and the call that counts them


class Spares:
    """A few pieces of memory, all of one size."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self) -> bytearray | None:
        """A piece that nothing uses; None when there is none."""
        for index in range(len(self._kept)):
            if sys.getrefcount(self._kept[index]) == _UNUSED:
                return self._kept.pop(index)
        return None

    def give(self, memory: bytearray) -> None:
        """A request's memory, perhaps still looked at."""
        if len(memory) == SPARE_BYTES and len(self._kept) < SPARES_MAX:
            self._kept.append(memory)
