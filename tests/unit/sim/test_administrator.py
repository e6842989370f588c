"""The administrator of a world gives orders, they are carried out, and the world ends as ordered."""

from __future__ import annotations

from chronik.sim import administrator
from chronik.sim.administrator import Administrator
from chronik.sim.chance import SimChance
from chronik.sim.client import SimClient
from chronik.sim.run import run_world
from chronik.sim.world import World


def test_an_administrator_does_what_it_can_among_so_many_nodes() -> None:
    alone = [administrator.kinds_of(SimChance(seed, "kinds"), 1) for seed in range(50)]
    among = [administrator.kinds_of(SimChance(seed, "kinds"), 3) for seed in range(50)]

    assert not any(administrator.AMONG_NODES & kinds.keys() for kinds in alone)
    assert {kind for kinds in among for kind in kinds} == set(administrator.KINDS)


def test_every_kind_of_order_is_carried_out() -> None:
    """In one world or another: each has time for some twenty orders, of kinds that chance chooses."""
    seeds = [seed for seed in range(100) if administrator.is_there(SimChance(seed, "world"), 0.3)]
    carried_out: set[str] = set()
    for seed in seeds[:6]:
        carried_out |= _carried_out(seed)
        if carried_out == set(administrator.KINDS):
            break

    assert carried_out == set(administrator.KINDS)


def _carried_out(seed: int) -> set[str]:
    world = World(seed, 6.0, 3, is_whole_story_kept=True, administrator_share=0.3)
    working = world.populate
    world.__dict__["populate"] = lambda: [_eager(client) for client in working()]

    outcome = run_world(world)

    assert outcome.broken is None, outcome.story
    assert any("world      is whole again" in line for line in outcome.story)
    [ruler] = [client for client in world.population.clients if isinstance(client, Administrator)]
    return set(ruler.counts)


def _eager(client: SimClient) -> SimClient:
    if isinstance(client, Administrator):
        client.kinds, client.pace_s = dict.fromkeys(administrator.KINDS, 1), 0.05
    return client


def test_a_share_of_all_worlds_has_an_administrator() -> None:
    ruled = sum(administrator.is_there(SimChance(seed, "world"), 0.3) for seed in range(1_000))

    assert 250 < ruled < 350
