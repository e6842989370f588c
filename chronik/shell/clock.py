"""The Clock door: this machine's clocks."""

from __future__ import annotations

import time


class RealClock:
    """Wall and monotonic time of the operating system."""

    now_ns = staticmethod(time.time_ns)  # as it is: the trace asks for each batch

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
