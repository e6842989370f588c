"""Many worlds on several processes are the same worlds."""

from __future__ import annotations

import multiprocessing

from chronik.sim.many import cores, run_many
from chronik.sim.run import run_seed


def test_worlds_on_several_processes_come_in_the_order_of_their_seeds() -> None:
    """Worlds on several processes come in the order of their seeds and are the same."""
    seeds = range(3, 7)

    there = list(run_many(seeds, 1.0, 1, jobs=2))

    assert there == [run_seed(seed, 1.0, 1) for seed in seeds]


def test_the_processes_end_when_nobody_asks_for_more() -> None:
    worlds = run_many(range(200), 1.0, 1, jobs=2)

    assert next(worlds).seed == 0
    worlds.close()

    assert not multiprocessing.active_children()


def test_one_job_needs_no_process() -> None:
    worlds = run_many(range(2), 1.0, 1, jobs=1)

    assert next(worlds).seed == 0
    assert not multiprocessing.active_children()
    assert cores() >= 1
