"""How often a node reports: as its file says, or more often where the controller's file asks for it."""

from __future__ import annotations

from chronik.core.machines.metadata.records import FENCE, BrokerRegistrationChangeRecord
from tests.unit.node.controlled import Controlled
from tests.unit.node.living import Living, fenced
from tests.unit.node.peer_world import World, in_world, pass_time


@in_world
async def test_heartbeats_go_on_at_their_interval(world: World) -> None:
    living = Living(Controlled(world))
    await living.start()
    before = len(living.beats())

    await pass_time(5)

    assert 9 <= len(living.beats()) - before <= 10
    await living.liveness.shut_down()


def fence(cluster: Controlled) -> None:
    """As a controller does when a session is over."""
    cluster.take([BrokerRegistrationChangeRecord(1, cluster.image.brokers[1].epoch, fenced=FENCE)])


@in_world
async def test_a_node_whose_sessions_are_shorter_at_the_controller_reports_more_often(world: World) -> None:
    living = Living(Controlled(world))
    await living.start()
    await pass_time(1)
    fence(living.cluster)
    await pass_time(0.05)
    assert not fenced(living), "it need not wait for the next heartbeat"
    before = len(living.beats())

    await pass_time(5)

    assert 18 <= len(living.beats()) - before <= 20
    await living.liveness.shut_down()


@in_world
async def test_a_node_that_was_not_heard_for_its_whole_session_keeps_to_its_interval(world: World) -> None:
    living = Living(Controlled(world))
    await living.start()
    living.cluster.is_known = False
    await pass_time(10)
    fence(living.cluster)
    living.cluster.is_known = True
    await pass_time(1)
    before = len(living.beats())

    await pass_time(5)

    assert 9 <= len(living.beats()) - before <= 10
    await living.liveness.shut_down()
