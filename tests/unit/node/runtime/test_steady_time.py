"""A time that looks like the wall clock and never jumps."""

from __future__ import annotations

from chronik.node.runtime.steady_time import SteadyTime
from tests.unit.node.fakes import NOW_MS, FakeClock


def test_it_begins_with_the_wall_clock_and_goes_on_as_time_passes() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)
    assert time.now_ms() == NOW_MS

    clock.advance(250)

    assert time.now_ms() == NOW_MS + 250


def test_a_clock_that_is_set_does_not_move_it() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)

    clock.wall_ms += 3_600_000
    assert time.now_ms() == NOW_MS
    clock.wall_ms -= 7_200_000

    assert time.now_ms() == NOW_MS


def test_it_also_tells_what_the_wall_clock_shows_now() -> None:
    clock = FakeClock()
    time = SteadyTime(clock)

    clock.wall_ms += 3_600_000

    assert time.wall_ms() == NOW_MS + 3_600_000
