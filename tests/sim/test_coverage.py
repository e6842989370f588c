"""The worlds get to where things can go wrong: a state that no fault meets is a promise that nothing tests."""

from __future__ import annotations

import pytest

from chronik.sim.coverage import ANY, Table, summed
from chronik.sim.door_faults import BREAKING, SHORT
from chronik.sim.faults import AMONG_NODES, ANY_DURABILITY, SYNCED_ONLY
from chronik.sim.run import run_seed

WORLDS = 24
# A world ends by itself, and by its own clock: how long that takes says how busy the machine is, and nothing else.
pytestmark = pytest.mark.timeout(0)
# What some fault has to meet in so many worlds of three nodes, and what some kinds of fault have to.
STATES = (
    "leader",
    "follower",
    "controller",
    "starting",
    "unsynced",
    "rolled",
    "no controller",
    "isr shrunk",
    "lagging",
    "rebalancing",
    "other down",
    "cut",
    "disk trouble",
    "calm",
)
DEATHS = ("kill", "kill_leader", "power", "stop")


@pytest.fixture(scope="module")
def table() -> Table:
    return summed(run_seed(seed, None, 3).met for seed in range(WORLDS))


def test_every_kind_of_fault_happens(table: Table) -> None:
    of_doors = (*(f"short_{name}" for name in SHORT), *BREAKING)
    never = [kind for kind in (*ANY_DURABILITY, *SYNCED_ONLY, *AMONG_NODES, *of_doors) if not table[kind][ANY]]

    assert not never


def test_every_state_that_matters_is_met_by_a_fault(table: Table) -> None:
    never = [state for state in STATES if not any(row[state] for row in table.values())]

    assert not never


def test_leaders_followers_and_the_controller_die_also_when_another_is_down(table: Table) -> None:
    states = ("leader", "follower", "controller", "other down", "isr shrunk", "rebalancing")
    never = [state for state in states if not any(table[death][state] for death in DEATHS)]

    assert not never
