"""Nodes that are not all alike can be set up, and worlds have enough of each kind."""

from __future__ import annotations

from collections import Counter

import pytest

from chronik.core.config.node import NodeConfig
from chronik.sim import mixture
from chronik.sim.chance import SimChance
from chronik.sim.plans import PORT, node_settings


def test_most_worlds_are_small_and_some_have_up_to_seven_nodes() -> None:
    sizes = Counter(mixture.size(SimChance(seed, "size"), 3) for seed in range(2_000))

    assert set(sizes) == {3, 4, 5, 6, 7}
    assert sizes[3] > 1_700
    assert mixture.size(SimChance(1, "size"), 1) == 1


def test_a_quorum_has_three_voters_at_least_and_the_others_observe() -> None:
    drawn = [mixture.voter_ids(SimChance(seed, "observers"), 5) for seed in range(200)]

    assert {len(voters) for voters in drawn} == {3, 4, 5}
    assert {node_id for voters in drawn for node_id in voters} == {1, 2, 3, 4, 5}
    assert mixture.voter_ids(SimChance(1, "observers"), 3) == (1, 2, 3)


@pytest.mark.parametrize("seed", range(30))
def test_a_node_starts_with_a_file_of_its_own(seed: int) -> None:
    shared = node_settings(SimChance(seed, "settings"), 3, is_synced=True)
    own = mixture.own_settings(SimChance(seed, "file"))

    config = NodeConfig.from_settings(
        {**shared, **own, "node.id": "3", "listeners": f"PLAINTEXT://node3:{PORT}"}
    ).checked()

    assert config.node_id == 3


def test_an_observer_names_the_voters_and_not_itself() -> None:
    settings = node_settings(SimChance(1, "settings"), 5, is_synced=True)
    settings["controller.quorum.voters"] = mixture.voters_setting((1, 3, 4))

    config = NodeConfig.from_settings({**settings, "node.id": "5", "listeners": f"PLAINTEXT://node5:{PORT}"})

    assert set(config.voters) == {1, 3, 4}
    assert not config.is_alone
