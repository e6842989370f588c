"""Thousands of short bad days. A failure is repeated by its seed, to the event."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.core.raft.simulation import World

SEEDS_A_BLOCK = 100


def live(seed: int) -> World:
    """Three or five voters by the seed; in every third history voters come and go and snapshots are taken."""
    with_changes = seed % 3 == 0
    world = World(seed, voter_count=5 if seed % 2 else 3, observer_count=2 if with_changes else 0)
    try:
        world.live(with_changes)
    except Exception as problem:
        raise AssertionError(f"seed {seed} at {world.now_ms} ms: {problem}") from problem
    return world


@pytest.mark.parametrize("block", range(20))
def test_whatever_happens_nothing_safe_is_lost_and_a_leader_emerges_when_it_ends(block: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        world = live(seed)
        happened += world.count
        happened["safe records"] += len(world.safe)
        happened["epochs"] += len(world.leaders)

    # Were the days bad enough? Each of these must have happened for the silence of the checks to mean something.
    for what, at_least in {
        "safe records": 300,
        "epochs": 120,
        "crashes": 150,
        "crashes that lost records": 5,
        "cuts": 25,
        "lost disks": 5,
        "voter changes": 3,
        "refused voter changes": 20,
        "snapshots": 8,
        "installs": 1,
    }.items():
        assert happened[what] >= at_least, f"too quiet: {happened[what]} {what}"


def test_the_same_seed_is_the_same_history() -> None:
    one, other = live(7), live(7)

    assert (one.now_ms, one.event_count, one.safe) == (other.now_ms, other.event_count, other.safe)
