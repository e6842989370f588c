"""A time for machines that looks like the wall clock but never jumps.

Sessions and timeouts are measured in it: a clock that is set an hour forward must not throw every member out of its
group. It means nothing to another process, nor to this one's next life: what goes to disk needs the wall clock as well.
"""

from __future__ import annotations

from chronik.core.ports import Clock


class SteadyTime:
    """The wall clock when the node started, carried on by the monotonic one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()

    def now_ms(self) -> int:
        return self._clock.monotonic_ms() + self._ahead_ms

    def wall_ms(self) -> int:
        """What the wall clock shows now: for what other processes will compare with it. Records carry it, and with
        both times a machine stamps what it keeps (see core/machines/groups/offsets.py)."""
        return self._clock.now_ms()
