"""Hours and days that pass in a quiet world."""

from __future__ import annotations

from chronik.sim.chance import SimChance
from chronik.sim.idle_time import DAY_MS, IdleTime
from chronik.sim.run import run_world
from chronik.sim.world import World


def seed_with_days() -> int:
    worlds = (IdleTime(SimChance(seed, "world").other("time"), 1) for seed in range(500))
    return next(seed for seed, idle in enumerate(worlds) if idle.days > 0 and idle.seconds < 4000)


def test_in_a_world_with_idle_time_hours_pass_and_clocks_jump_by_days() -> None:
    world = World(seed_with_days(), node_count=1)

    outcome = run_world(world)

    assert outcome.broken is None
    assert outcome.simulated_seconds > world.idle_time.seconds > 2000
    assert world.hosts[0].clock.skew_ms > (world.idle_time.days - 1) * DAY_MS


def test_most_worlds_have_none() -> None:
    idle = [IdleTime(SimChance(seed, "world").other("time"), 3).seconds > 0 for seed in range(500)]

    assert 10 < sum(idle) < 60
