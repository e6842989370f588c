"""A quorum of real nodes' parts on a simulated network and simulated disks: quorum, metadata, links, dispatch.

Nothing else of a node is there, so whatever a test sees comes from the quorum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from chronik.api.quorum_topic import METADATA_TOPIC_ID
from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.machines.metadata.sessions import ControllerConfig
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.node.cluster.metadata import METADATA_CONFIG, SNAPSHOT_RECORDS, Metadata
from chronik.node.cluster.quorum import Quorum, QuorumSetup
from chronik.node.net.connection import Connections
from chronik.node.net.peers import Peers
from chronik.node.replication.checkpoints import Checkpoints
from chronik.node.replication.purgatory import Purgatory
from chronik.node.routing.dispatch import Dispatch
from chronik.node.runtime.deadlines import Deadlines
from chronik.node.runtime.steady_time import SteadyTime
from chronik.sim.chance import SimChance
from chronik.sim.clock import SimClock
from chronik.sim.files import SimDisk
from chronik.sim.loop import SimLoop, SimProcess
from chronik.sim.network import SimNetwork, WireMood, Wires
from chronik.sim.story import WorldStory
from chronik.trace.metrics import Metrics
from tests.unit.api.fake_context import fake_context
from tests.unit.node.peer_world import PORT, pass_time
from tests.unit.node.replication_parts import Subscribers, build_replicas

CLUSTER_ID = "a-test-cluster"
BROKER = 9  # is registered, and never reports
LONG_SESSIONS = {"broker.session.timeout.ms": "100000000"}


class Member:
    """One node of the quorum. Its disk outlives its processes."""

    def __init__(self, world: QuorumWorld, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.host = f"node{node_id}"
        self.disk = SimDisk(SimChance(world.seed, f"disk{node_id}"))
        self.starts = 0
        self.process: SimProcess | None = None
        self.snapshot_records = SNAPSHOT_RECORDS
        self.cluster_id = CLUSTER_ID
        self.applied: list[Any] = []
        self.graveyard: list[Any] = []

    async def start(self) -> Member:
        self.starts += 1
        self.world.wires.dark.discard(self.host)
        self.process = SimProcess(f"{self.host}#{self.starts}")
        await self.world.loop.create_task(self._start(), context=self.process.context)
        return self

    async def _start(self) -> None:
        world = self.world
        loop = asyncio.get_running_loop()
        config = world.config(self.node_id)
        clock = SimClock(loop.time)
        chance = SimChance(world.seed, f"node{self.node_id}-{self.starts}")
        network = SimNetwork(world.wires, self.host)
        self.metrics = Metrics()
        self.deadlines = Deadlines(loop, self.metrics)
        self.waiting = Purgatory(self.deadlines, self.metrics)
        self.checkpoints = Checkpoints(self.disk)
        subscribers = Subscribers()
        self.replicas = build_replicas(
            self.disk,
            self.checkpoints,
            self.waiting,
            clock,
            self.metrics,
            node_id=self.node_id,
            listeners=subscribers.listeners,
            metadata_log_synced=lambda: self.quorum.log_grew(),
        )
        time = SteadyTime(clock)
        self.peers = Peers(network, self.deadlines, self.metrics, self.node_id, world.addresses.get)
        replica = self.replicas.partitions.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_CONFIG)
        assert isinstance(replica, QuorumReplica)
        self.quorum = Quorum(
            replica,
            self.replicas,
            self.disk,
            self.waiting,
            self.peers,
            time,
            chance,
            self.metrics,
            QuorumSetup.of(config, self.cluster_id),
        )
        self.applied = []
        self.subscribers: list[Callable[[list[Any]], None]] = [self.applied.extend]
        subscribers.went_offline.append(self.quorum.replica_offline)
        self.metadata = Metadata(
            MetadataImage(self.cluster_id, config),
            self.quorum,
            self.replicas,
            self.waiting,
            time,
            self.disk,
            self.metrics,
            ControllerConfig.of(config),
            self.snapshot_records,
            self.subscribers,
        )
        await self._listen(network, config)
        self.quorum.start(self.metadata)
        self.graveyard.append((self.quorum, self.metadata, self.dispatch, self.connections, self.peers))

    async def _listen(self, network: SimNetwork, config: NodeConfig) -> None:
        plain = fake_context()
        context = replace(
            plain,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            fetching=replace(plain.fetching, config=config.fetch),
            quorum=self.quorum,
            waiting=self.waiting,
            replicas=self.replicas,
            metrics=self.metrics,
        )
        self.dispatch = Dispatch(context, self.metrics)
        self.connections = Connections(self.dispatch, frame_bytes_max=10_000_000, under_way_max=100)
        self.listener = await network.listen(self.host, PORT, self.connections.accept)
        self.checkpoints.started()

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def kill(self) -> None:
        """As kill -9: what was written is there."""
        assert self.process is not None
        self.process.kill()
        self.process = None
        self.world.wires.process_died(self.host)
        self.disk.process_died()

    def power_cut(self) -> None:
        """What was not synced is gone, and nothing hears of it."""
        assert self.process is not None
        self.process.kill()
        self.process = None
        self.world.wires.host_lost_power(self.host)
        self.world.wires.process_died(self.host)
        self.disk.process_died()
        self.disk.power_cut(0.0)

    async def stop(self) -> None:
        assert self.process is not None
        await self.world.loop.create_task(self._stop(), context=self.process.context)
        self.process = None

    async def _stop(self) -> None:
        await self.listener.close()
        await self.quorum.stop()
        await self.metadata.stop()
        await self.connections.close_all()
        self.peers.close()
        await self.dispatch.close()
        await self.replicas.sync_rounds.wait_until_idle()
        self.deadlines.close()
        self.replicas.logs.close_all()
        self.checkpoints.write(self.replicas.held())
        self.checkpoints.stopped()

    async def register(self) -> None:
        """Have a broker to put topics on."""
        await self.metadata.ask_here(RegisterBroker(BROKER, bytes(16), "host", 9092))

    async def create(self, name: str, partitions: int = 1) -> None:
        """Ask this controller for a topic."""
        (created,) = await self.asked(name, partitions)
        assert not created.outcome.code, created.outcome

    def asked(self, name: str, partitions: int = 1) -> asyncio.Future[Any]:
        topic = NewTopic(name, name.encode().ljust(16, b"-"), partitions, 1)
        return self.metadata.ask_here(CreateTopics((topic,)))

    def topics(self) -> list[str]:
        return list(self.image.topics)


class QuorumWorld:
    """Members 1 to n, all of them voters unless said otherwise."""

    def __init__(self, loop: SimLoop, count: int, voters: int, seed: int) -> None:
        self.loop = loop
        self.seed = seed
        self.wires = Wires(loop, SimChance(seed, "wires"), WorldStory(loop.time))
        self.addresses = {node_id: (f"node{node_id}", PORT) for node_id in range(1, count + 1)}
        self.voters = ",".join(f"{node_id}@node{node_id}:{PORT}" for node_id in range(1, voters + 1))
        self.members = {node_id: Member(self, node_id) for node_id in range(1, count + 1)}

    def config(self, node_id: int) -> NodeConfig:
        return NodeConfig.from_settings(
            {
                "node.id": str(node_id),
                "controller.quorum.voters": self.voters,
                "controller.quorum.fetch.timeout.ms": "1000",
                "cluster.id": CLUSTER_ID,
                **LONG_SESSIONS,
            }
        )

    def __getitem__(self, node_id: int) -> Member:
        return self.members[node_id]

    @property
    def up(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_up]

    async def start(self) -> Member:
        """All of them, with a broker to put topics on. Returns the controller."""
        for member in self.members.values():
            await member.start()
        controller = await self.controller()
        if not controller.image.brokers:
            await controller.register()
        return controller

    async def controller(self, *, without: Member | None = None) -> Member:
        """Wait for one."""
        found: list[Member] = []

        def is_there() -> bool:
            found[:] = [member for member in self.up if member.metadata.is_controller and member is not without]
            return bool(found)

        await self.until(is_there, "a controller")
        return found[0]

    async def until(self, is_there: Callable[[], bool], what: str = "it", seconds: float = 20) -> None:
        until = self.loop.time() + seconds
        while not is_there():
            assert self.loop.time() < until, f"{what} did not come in {seconds} s: " + "; ".join(
                f"{member.node_id} {member.quorum.raft.role} {member.quorum.raft.election}"
                f" to {member.quorum.log.end_offset}, synced {member.quorum.log.synced_offset}"
                for member in self.up
            )
            await pass_time(0.005)

    async def agreed(self) -> None:
        """Until all have the same image."""
        await self.until(lambda: len({member.image.version for member in self.up}) == 1, "one image")

    def others(self, than: Member) -> list[Member]:
        return [member for member in self.up if member is not than]

    def cut(self, *members: Member) -> None:
        """Between these and all others, in both directions."""
        inside = [member.host for member in members]
        for one in self.members.values():
            for other in self.members.values():
                if (one.host in inside) != (other.host in inside):
                    self.wires.moods[one.host, other.host] = WireMood(is_cut=True)

    async def stop(self) -> None:
        for member in self.up:
            await member.stop()


def in_quorum(
    count: int = 3, voters: int | None = None, seed: int = 7
) -> Callable[[Callable[[QuorumWorld], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Runs the test on a simulated loop. Nothing may have gone wrong unnoticed."""

    def decorate(test: Callable[[QuorumWorld], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def wrapped() -> None:
            loop = SimLoop()
            problems: list[dict[str, Any]] = []
            loop.set_exception_handler(lambda _, context: problems.append(context))
            world = QuorumWorld(loop, count, count if voters is None else voters, seed)
            context = SimProcess("the test").context

            async def through() -> None:
                await test(world)
                for member in world.up:
                    assert member.metrics.faults == 0, f"node {member.node_id} counted a fault"
                await world.stop()

            try:
                loop.run_until_complete(loop.create_task(through(), context=context))
            finally:
                loop.close()
            assert problems == []

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate
