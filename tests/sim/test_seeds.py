"""Whole nodes through bad days: every promise must hold in every world. `make soak` takes more of them."""

from __future__ import annotations

import os

import pytest

from chronik.sim.run import run_seed

SEEDS = int(os.environ.get("CHRONIK_SIM_SEEDS", "200"))
SEEDS_PER_TEST = 5


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, min(first + SEEDS_PER_TEST, SEEDS)):
        outcome = run_seed(seed)

        if outcome.broken is not None:
            story = "\n".join(outcome.story)
            pytest.fail(f"seed {seed}: {outcome.broken}\n{story}\nagain: chronik simulate --seed {seed}", pytrace=False)
        assert outcome.promised > 0
