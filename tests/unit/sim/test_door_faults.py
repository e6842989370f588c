"""Phases in which calls of the Files door fail: they come, they are counted, and they end."""

from __future__ import annotations

from chronik.sim.coverage import ANY, summed
from chronik.sim.door_faults import DoorFaults
from chronik.sim.run import run_world
from chronik.sim.world import World

NAMES = {"short_EMFILE", "short_ENFILE", "short_ENOMEM", "short_ENOSPC", "broken", "broken_ENOSPC"}


def test_they_are_in_the_table_before_they_happen() -> None:
    assert summed([]).keys() >= NAMES


def test_every_kind_of_phase_comes_and_is_counted_with_what_it_met() -> None:
    world = World(1, 1.0, 3)
    world.is_synced = True
    counts: dict[str, int] = {}
    doors = DoorFaults(world, counts, in_worlds=1.0)

    world.loop.outside(300.0, doors.end)
    world.loop.run_until_complete(doors.run())

    assert counts.keys() == NAMES
    assert {fault: row[ANY] for fault, row in world.coverage.table.items()} == counts
    assert not any(host.disk.is_troubled for host in world.hosts)
    run_world(world)


def test_a_disk_is_not_broken_where_another_was_lost() -> None:
    world = World(1, 1.0, 3)
    world.is_synced = True
    counts = {"wipe": 1}
    doors = DoorFaults(world, counts, in_worlds=1.0)

    world.loop.outside(100.0, doors.end)
    world.loop.run_until_complete(doors.run())

    assert not counts.keys() & {"broken", "broken_ENOSPC"}
    assert len(counts) > 1
    run_world(world)
