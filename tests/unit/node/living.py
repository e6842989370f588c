"""A node for tests of how it registers, reports and takes its leave."""

from __future__ import annotations

from typing import Any, cast

from chronik.core.machines.metadata.controller_commands import BrokerHeartbeat
from chronik.node.cluster.identity import Identity, settle
from chronik.node.cluster.liveness import BrokerSetup, Liveness
from tests.unit.api.fake_context import CLUSTER_ID
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.controlled import Controlled
from tests.unit.node.fakes import FakeChance
from tests.unit.node.peer_world import pass_time


class Living:
    """Node 1 of a controlled cluster, with its disk."""

    def __init__(self, cluster: Controlled, files: MemoryFiles | None = None, identity: Identity | None = None) -> None:
        self.cluster = cluster
        self.files = files or MemoryFiles()
        self.identity = identity or settle(cast(Any, self.files), 1, FakeChance(), CLUSTER_ID)
        self.liveness = Liveness(
            cluster.link,
            BrokerSetup.of(cluster.config),
            self.identity,
            cast(Any, self.files),
            FakeChance(),
            cluster.world.metrics,
        )
        cluster.metadata.on_applied.append(self.liveness.metadata_applied)

    async def start(self) -> None:
        await self.liveness.register({"PLAINTEXT": 9092})
        self.liveness.start()
        await pass_time(0.05)

    def beats(self) -> list[BrokerHeartbeat]:
        return [command for command in self.cluster.asked if isinstance(command, BrokerHeartbeat)]


def fenced(living: Living) -> bool:
    return living.liveness.is_fenced
