"""What happened: the last events in words, and a hash over all of them that tells whether two runs were the same."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

KEPT_EVENTS = 40  # of what happens to nodes
KEPT_CHATTER = 20  # of what clients say


class Violation(Exception):
    """A promise was broken."""


class WorldStory:
    """All parts of the world write it; the first broken promise ends it."""

    def __init__(self, time: Callable[[], float], *, is_whole: bool = False) -> None:
        self._time = time
        self._hash = hashlib.blake2b(digest_size=16)
        self.events = 0
        self._last: deque[tuple[int, str]] = deque(maxlen=None if is_whole else KEPT_EVENTS)
        self._chatter: deque[tuple[int, str]] = deque(maxlen=None if is_whole else KEPT_CHATTER)
        self.broken: str | None = None
        self.on_broken: Callable[[], None] = lambda: None

    def tell(self, who: str, what: str, *, is_chatter: bool = False) -> None:
        """An event worth reading. Clients that try again and again do not drown what made them."""
        line = f"{self._time():10.6f}  {who:<10} {what}"
        self.count(line.encode())
        (self._chatter if is_chatter else self._last).append((self.events, line))

    def last(self) -> list[str]:
        """The last events, in the order in which they happened."""
        return [line for _, line in sorted((*self._last, *self._chatter))]

    def count(self, event: bytes) -> None:
        """An event that is part of the trace and too small to be shown."""
        self.events += 1
        self._hash.update(event)

    def break_promise(self, what: str) -> Violation:
        """Returns the exception for the caller; the run ends in any case."""
        if self.broken is None:
            self.tell("judge", f"BROKEN: {what}")
            self.broken = what
            self.on_broken()
        return Violation(what)

    def trace_hash(self) -> str:
        return self._hash.hexdigest()
