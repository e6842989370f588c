"""Members of a KIP-848 group in short worlds: whatever comes, goes, vanishes or dozes, all is read in the end."""

from __future__ import annotations

import pytest

from chronik.sim.consumer_members import ConsumerMember
from chronik.sim.run import run_seed, run_world
from chronik.sim.world import CONSUMER_GROUP, World

SECONDS = 6.0


@pytest.mark.parametrize(("seed", "node_count"), [(0, 1), (8, 1), (22, 1), (33, 1), (6, 3), (8, 3)])
def test_no_two_have_one_partition_and_the_group_comes_to_rest(seed: int, node_count: int) -> None:
    world = World(seed, SECONDS, node_count)

    outcome = run_world(world)

    members = [client for client in world.population.clients if isinstance(client, ConsumerMember)]
    assert outcome.broken is None, outcome.story
    assert len(members) > 1
    assert all(member.is_done for member in members)
    assert all(world.judge.commit_known(CONSUMER_GROUP, name) >= 0 for name in world.names)


def test_who_is_put_out_joins_again() -> None:
    outcome = run_seed(22, SECONDS, 1, is_whole_story_kept=True)  # this seed has some who doze for too long

    told = [line.split(maxsplit=2)[1:] for line in outcome.story]
    who, _ = next(line for line in told if line[-1].startswith("is out: "))
    afterwards = told[told.index([who, "is out: unknown_member_id"]) :]
    assert any(line[0] == who and "partitions at epoch" in line[1] for line in afterwards)
    assert [who, "is done"] in afterwards


def test_a_member_may_be_given_partitions_that_it_has_never_asked_for() -> None:
    """A topic has grown, and the coordinator knows before the member does: it names them by their topic."""
    outcome = run_seed(281)

    assert outcome.broken is None, outcome.story


def test_a_share_of_the_worlds_has_such_a_group() -> None:
    worlds = [World(seed, 1.0, 1) for seed in range(20)]
    for world in worlds:
        world.populate()
        world.loop.close()

    counts = [sum(isinstance(client, ConsumerMember) for client in world.population.clients) for world in worlds]
    assert 0 in counts
    assert max(counts) > 1
