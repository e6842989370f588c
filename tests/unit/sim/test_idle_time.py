"""Hours and days that pass in a quiet world."""

from __future__ import annotations

import pytest

from chronik.sim.chance import SimChance
from chronik.sim.idle_time import DAY_MS, FOR_HOURS_TOGETHER, IdleTime
from chronik.sim.run import run_world
from chronik.sim.world import World

EVENTS_PER_S = 30  # three nodes with the usual settings have more than twice as many


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


def test_some_worlds_of_several_nodes_are_idle_for_most_of_an_hour_or_longer() -> None:
    worlds = [IdleTime(SimChance(seed, "world").other("time"), 3) for seed in range(5_000)]

    long = [idle for idle in worlds if idle.settings]

    assert len(long) / sum(idle.seconds > 0 for idle in worlds) == pytest.approx(FOR_HOURS_TOGETHER, rel=0.5)
    assert all(1_000 < idle.seconds < 5_400 for idle in long)


def test_nodes_that_will_be_idle_for_hours_say_little_and_are_one_cluster_all_the_time() -> None:
    seeds = ((seed, IdleTime(SimChance(seed, "world").other("time"), 3)) for seed in range(5_000))
    world = World(next(seed for seed, idle in seeds if idle.settings), seconds=1.0, node_count=3)
    world.idle_time.seconds = 600.0  # what a test may take; `chronik simulate` takes all of it

    outcome = run_world(world)

    assert outcome.broken is None
    assert outcome.simulated_seconds > 600
    assert outcome.events < EVENTS_PER_S * outcome.simulated_seconds
