"""A node that joins a cluster, and does not know yet which nodes vote there."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.ports import Doors
from chronik.node.cluster.identity import CannotStart, Identity
from chronik.node.node import Node
from chronik.sim.chance import SimChance
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.copies import LoopClock


def test_a_node_that_is_to_join_others_is_never_a_quorum_of_its_own() -> None:
    settings = {
        "node.id": "4",
        "cluster.id": "a-cluster",
        "listeners": "10.0.0.4:9092",
        "controller.quorum.bootstrap.servers": "10.0.0.1:9092",
    }

    async def start() -> None:
        clock = LoopClock(cast(Any, asyncio.get_running_loop()))
        files, chance = cast(Any, MemoryFiles()), SimChance(1, "dice")
        Node(
            NodeConfig.from_settings(settings),
            Identity(4, "a-cluster"),
            Doors(files, clock, cast(Any, None), chance),
            "/d",
        )

    with pytest.raises(CannotStart, match="voters"):
        asyncio.run(start())
