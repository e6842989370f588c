"""The hostile peer and the hostile client are heard, and nothing comes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from chronik.sim.client import SimClient
from chronik.sim.hostile import NOT_FOR_CLIENTS, HostileClient, HostilePeer
from chronik.sim.link import VERSIONS
from chronik.sim.run import run_world
from chronik.sim.world import World

SECONDS = 4.0


class HostileWorld(World):
    """With both of them, in a hurry."""

    def _hostile(self) -> list[SimClient]:
        traits: dict[str, Any] = {"until_s": self.loop.time() + self.seconds, "pace_s": 0.01}
        kinds = [name for name in sorted(VERSIONS) if name not in NOT_FOR_CLIENTS]
        made: list[SimClient] = [
            self.client(HostileClient, "hostile-client", topics=[*self.topics], kinds=kinds, **traits)
        ]
        if self.node_count > 1:
            made.append(self.client(HostilePeer, "hostile-peer", node_ids=self.traits.voter_ids, **traits))
        return made


@pytest.mark.parametrize(("seed", "node_count"), [(1, 1), (2, 3)])
def test_whatever_they_say_every_promise_holds(seed: int, node_count: int) -> None:
    world = HostileWorld(seed, SECONDS, node_count, is_whole_story_kept=True)

    outcome = run_world(world)

    said = Counter(line.split(" says ")[1] for line in outcome.story if " says " in line)
    assert outcome.broken is None
    assert said.total() > 50
    if node_count > 1:
        for name in ("vote", "begin_quorum_epoch", "end_quorum_epoch", "fetch", "fetch_snapshot"):
            assert said[name] > 0


def test_in_some_worlds_they_are_there() -> None:
    names: Counter[str] = Counter()
    for seed in range(60):
        world = World(seed, node_count=3)
        names.update(client.name for client in world.populate())
        world.loop.close()

    assert 0 < names["hostile-peer"] < 40
    assert 0 < names["hostile-client"] < 40
