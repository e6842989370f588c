"""Which fault met which state: counted when it happens, and zeros are seen."""

from __future__ import annotations

from chronik.sim import administrator
from chronik.sim.chance import SimChance
from chronik.sim.coverage import ANY, FAULTS, STATES, Coverage, never_met, summed, unreached
from chronik.sim.faults import AMONG_NODES, ANY_DURABILITY, ONCE, SYNCED_ONLY
from chronik.sim.run import run_world
from chronik.sim.world import World


def test_a_fault_is_counted_with_the_states_that_it_meets() -> None:
    world = World(1, 1.0, 3)
    coverage, host = Coverage(world), world.hosts[0]

    host.disk.room_bytes = 0
    coverage.met("kill", host)
    host.disk.room_bytes = None
    coverage.met("kill", host)

    row = coverage.table["kill"]
    assert (row[ANY], row["disk trouble"], row["no controller"]) == (2, 1, 2)
    assert "leader" not in row  # nothing runs yet
    run_world(world)


def test_every_kind_of_fault_is_in_the_table_before_it_happens() -> None:
    table = summed([])

    assert set(table) >= {*ANY_DURABILITY, *SYNCED_ONLY, *AMONG_NODES, *ONCE}
    assert set(table) == set(FAULTS)
    assert table["kill"] == dict.fromkeys((ANY, *STATES), 0)


def test_a_fault_that_was_not_registered_is_in_the_table_all_the_same() -> None:
    table = summed([{"eclipse": {ANY: 1, "leader": 1}}, {"eclipse": {ANY: 2}}])

    assert (table["eclipse"][ANY], table["eclipse"]["leader"], table["eclipse"]["calm"]) == (3, 1, 0)


def test_what_never_met_is_named_and_a_fault_that_never_happened_once_only() -> None:
    table = summed([{"eclipse": {ANY: 1, "leader": 1}}])

    missed = never_met(table)
    assert ("eclipse", "leader") not in missed
    assert ("eclipse", "calm") in missed
    assert [state for fault, state in missed if fault == "kill"] == [ANY]
    assert "leader" not in unreached(table)
    assert "calm" in unreached(table)


def test_the_faults_of_a_world_are_those_of_its_table() -> None:
    outcome = run_world(World(11, 6.0, 3))

    assert outcome.broken is None, outcome.story
    counts = {fault: row[ANY] for fault, row in outcome.met.items()}
    assert {fault: count for fault, count in counts.items() if not fault.startswith("admin ")} == outcome.faults
    assert outcome.faults


def test_the_orders_of_an_administrator_are_in_the_table_before_any_was_given() -> None:
    assert {f"admin {kind}" for kind in administrator.KINDS} <= summed([]).keys()


def test_the_orders_of_a_world_are_in_its_table() -> None:
    seed = next(seed for seed in range(100) if administrator.is_there(SimChance(seed, "world"), 0.3))
    outcome = run_world(World(seed, 6.0, 3, administrator_share=0.3))

    assert outcome.broken is None, outcome.story
    assert any(fault.startswith("admin ") for fault in outcome.met)
