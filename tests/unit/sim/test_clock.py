"""A node's clocks: the wall clock may be set, the other one never goes back."""

from __future__ import annotations

from chronik.sim.clock import BEGAN_MS, SimClock


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not() -> None:
    now = [10.0]
    clock = SimClock(lambda: now[0])
    before = clock.monotonic_ms()

    clock.skew_ms = -3_600_000
    now[0] += 0.25

    assert clock.now_ms() == BEGAN_MS - 3_600_000 + 10_250
    assert clock.monotonic_ms() == before + 250
