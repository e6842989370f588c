"""How worlds are set up."""

from __future__ import annotations

import pytest

from chronik.core.config.node import NodeConfig
from chronik.sim.chance import SimChance
from chronik.sim.plans import PORT, node_settings, topic_plans


@pytest.mark.parametrize("seed", range(20))
def test_every_node_of_a_cluster_can_be_set_up_like_this(seed: int) -> None:
    settings = node_settings(SimChance(seed, "settings"), 3, is_synced=True)

    for node_id in (1, 2, 3):
        own = {"node.id": str(node_id), "listeners": f"PLAINTEXT://node{node_id}:{PORT}"}
        config = NodeConfig.from_settings({**settings, **own})
        assert config.voters == {1: ("node1", PORT), 2: ("node2", PORT), 3: ("node3", PORT)}
        assert not config.is_alone


def test_a_node_alone_has_no_settings_of_a_cluster() -> None:
    config = NodeConfig.from_settings(node_settings(SimChance(1, "settings"), 1, is_synced=True))

    assert config.is_alone


@pytest.mark.parametrize("node_count", [1, 3])
def test_topics_have_no_more_replicas_than_there_are_nodes_and_can_be_written_to(node_count: int) -> None:
    drawn = [topic_plans(SimChance(seed, "topics"), node_count) for seed in range(50)]
    plans = [plan for each in drawn for plan in each.values()]

    assert {plan.replica_count for plan in plans} == set(range(1, node_count + 1))
    assert all(int(plan.configs["min.insync.replicas"]) <= plan.replica_count for plan in plans)
