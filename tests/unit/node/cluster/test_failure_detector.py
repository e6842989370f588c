"""A process that is gone is noticed long before its session is over."""

from __future__ import annotations

import asyncio

from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.controller_commands import BrokerGone, BrokerHeartbeat
from chronik.node.cluster.failure_detector import FailureDetector
from tests.unit.node.controlled import Controlled
from tests.unit.node.peer_world import World, in_world, pass_time

INTERVAL_MS = 500


async def watched(world: World) -> tuple[Controlled, FailureDetector]:
    """Node 1 is the controller; node 2 is there and leads a topic that node 1 can take over."""
    cluster = Controlled(world)
    cluster.controller_id = 1
    cluster.machine.controller = cluster.machine.controller.of(cluster.config)
    for broker_id in (1, 2):
        epoch = cluster.tell(RegisterBroker(broker_id, bytes(16), "h", broker_id))
        cluster.tell(BrokerHeartbeat(broker_id, epoch, 10**9))
    cluster.tell(CreateTopics((NewTopic("t", b"t" * 16, assignments=((0, (2, 1)),)),)))
    watch = FailureDetector(cluster.metadata, world.peers, world.deadlines, 1, INTERVAL_MS)
    watch.start()
    return cluster, watch


def beat(cluster: Controlled) -> None:
    cluster.tell(BrokerHeartbeat(2, cluster.image.brokers[2].epoch, 10**9))


async def kill_two(world: World) -> None:
    await world.two.stop()
    for connection in world.two.connections:
        connection.hang_up()


def leader(cluster: Controlled) -> int:
    partition = cluster.image.partition("t", 0)
    assert partition is not None
    return partition.leader


@in_world
async def test_a_killed_broker_is_replaced_in_well_under_a_second(world: World) -> None:
    cluster, watch = await watched(world)
    for _ in range(3):
        await pass_time(INTERVAL_MS / 1000)
        beat(cluster)

    await kill_two(world)
    await pass_time(0.7)

    assert cluster.image.brokers[2].is_fenced
    assert leader(cluster) == 1
    watch.stop()


@in_world
async def test_a_broker_that_reports_is_not_replaced_though_it_refuses_connections(world: World) -> None:
    """A firewall between the two rejects: what counts is that it is heard of."""
    cluster, watch = await watched(world)
    await kill_two(world)

    for _ in range(10):
        await pass_time(INTERVAL_MS / 1000)
        beat(cluster)

    assert cluster.times_asked(BrokerGone) > 0
    assert leader(cluster) == 2
    watch.stop()


@in_world
async def test_a_broker_that_is_there_is_left_alone_however_silent(world: World) -> None:
    """That is for the session to decide."""
    cluster, watch = await watched(world)

    await pass_time(1.9)

    assert cluster.times_asked(BrokerGone) == 0
    assert len(world.two.connections) == 1, "one link, kept"
    watch.stop()


@in_world
async def test_a_new_controller_replaces_the_old_one_that_was_killed_at_once(world: World) -> None:
    cluster, watch = await watched(world)
    cluster.controller_id = 2
    beat(cluster)
    await pass_time(0.3)
    cluster.machine.sessions = type(cluster.machine.sessions)()  # a new controller has heard of nobody
    await kill_two(world)

    cluster.controller_id = 1
    await pass_time(0.2)

    assert leader(cluster) == 1
    watch.stop()


@in_world
async def test_only_the_controller_looks(world: World) -> None:
    cluster, watch = await watched(world)
    cluster.controller_id = 2
    await kill_two(world)

    watch.refused(2)
    await pass_time(5)

    assert cluster.times_asked(BrokerGone) == 0
    assert world.two.connections == []
    watch.stop()


@in_world
async def test_any_link_that_is_refused_tells_it(world: World) -> None:
    cluster, watch = await watched(world)
    beat(cluster)
    await kill_two(world)
    await pass_time(0.01)

    watch.refused(2)
    watch.refused(2)
    assert cluster.times_asked(BrokerGone) == 2
    await asyncio.sleep(0)
    watch.refused(2)

    assert cluster.times_asked(BrokerGone) == 2, "it is looked at again when the answer can be another"
    await pass_time(0.75)
    assert leader(cluster) == 1
    watch.stop()


@in_world
async def test_a_node_without_company_hardly_looks(world: World) -> None:
    cluster = Controlled(world, is_alone=True)
    cluster.tell(RegisterBroker(1, bytes(16), "h", 1))
    watch = FailureDetector(cluster.metadata, world.peers, world.deadlines, 1, INTERVAL_MS)
    watch.start()

    await pass_time(10)

    assert world.two.connections == []
    watch.stop()
