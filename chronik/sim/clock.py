"""The Clock door of one node: the world's time, with a wall clock that is off and may be set."""

from __future__ import annotations

from collections.abc import Callable

BEGAN_MS = 1_700_000_000_000  # the wall clock at the beginning of every world
BOOTED_MS = 5_000


class SimClock:
    """Monotonic time is the world's; the wall clock shows what it was set to."""

    def __init__(self, time: Callable[[], float], skew_ms: int = 0) -> None:
        self._time = time
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return BEGAN_MS + self.skew_ms + round(self._time() * 1000)

    def now_us(self) -> int:
        return (BEGAN_MS + self.skew_ms) * 1000 + round(self._time() * 1_000_000)

    def now_ns(self) -> int:
        return self.now_us() * 1000

    def monotonic_ms(self) -> int:
        return BOOTED_MS + round(self._time() * 1000)
