"""One seed from beginning to end."""

from __future__ import annotations

import logging

from chronik.sim.faults import AMONG_NODES, ANY_DURABILITY, ONCE, SYNCED_ONLY, Faults
from chronik.sim.run import run_seed, run_world
from chronik.sim.world import NodeLog, World


def test_a_short_world_keeps_its_promises_and_is_the_same_twice() -> None:
    first, second = run_seed(3, 3.0, 1), run_seed(3, 3.0, 1)

    assert first.broken is None, first.story
    assert first.promised > 0
    assert first.trace_hash == second.trace_hash
    assert first == second


def test_three_nodes_keep_their_promises_too_and_are_whole_in_the_end() -> None:
    outcome = run_seed(3, 2.0, 3, is_whole_story_kept=True)

    assert outcome.broken is None, outcome.story
    assert outcome.node_count == 3
    assert outcome.promised > 0
    assert any("world      is whole again" in line for line in outcome.story)
    assert any("snapshot of the metadata" in line for line in outcome.story)  # this seed has them early


def test_votes_come_and_go_and_nobody_notices() -> None:
    outcome = run_seed(4, 2.0, 3, is_whole_story_kept=True)  # this seed has somebody who changes them

    assert outcome.broken is None, outcome.story
    assert any("took the vote of node3 away" in line for line in outcome.story)
    assert any("gave node3 a vote" in line for line in outcome.story)


def test_eligible_leaders_and_the_leaders_that_answers_name() -> None:
    """Eligible leaders and the leaders that answers name are held against the truth. Short worlds in which leaders
    change: without hints and shrunken sets in them this would say nothing."""
    checked = 0
    shrunk = 0
    for seed in range(7):
        world = World(seed, 4.0, 3)
        outcome = run_world(world)

        assert outcome.broken is None, outcome.story
        checked += world.judge.hints.checked
        shrunk += sum(row.get("isr shrunk", 0) for row in outcome.met.values())
    assert checked > 0
    assert shrunk > 0


def test_another_seed_is_another_world() -> None:
    assert run_seed(3, 2.0, 1).trace_hash != run_seed(4, 2.0, 1).trace_hash


def test_a_disk_that_lies_about_its_syncs_is_found_out() -> None:
    world = World(2, 2.0, 1)
    for host in world.hosts:
        host.disk.is_liar = True

    outcome = run_world(world)

    assert outcome.broken is not None
    assert "BROKEN" in outcome.story[-1]


def test_a_traceback_in_a_nodes_log_is_a_broken_promise() -> None:
    world = World(1, 1.0)
    log = logging.Logger("chronik.node.test")
    log.addHandler(NodeLog(world.story))

    log.error("the disk is full")
    before = world.story.broken
    log.error("fault in an answer", exc_info=ValueError("why?"))

    assert before is None
    assert "why?" in (world.story.broken or "")
    world.loop.close()


def test_every_kind_of_fault_in_the_tables_can_be_made() -> None:
    world = World(1, 1.0)

    assert list(Faults(world).kinds) == [*ANY_DURABILITY, *SYNCED_ONLY, *AMONG_NODES, *ONCE]
    world.loop.close()
