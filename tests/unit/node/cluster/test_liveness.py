"""A node registers, reports, and takes its leave."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.controller_commands import BrokerHeartbeat, UnregisterBroker
from chronik.node.cluster.identity import Identity, settle
from chronik.node.cluster.liveness import SHUT_DOWN_MS_MAX, TWIN_MS_MIN, NotTakenIn
from chronik.node.replication.checkpoints import CLEAN
from tests.unit.api.fake_context import CLUSTER_ID
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.controlled import Controlled
from tests.unit.node.fakes import FakeChance
from tests.unit.node.living import Living, fenced
from tests.unit.node.peer_world import World, in_world, pass_time


def with_a_leader_elsewhere(cluster: Controlled) -> None:
    """Node 2 is there, and a topic that node 1 leads and node 2 can take over."""
    epoch = cluster.tell(RegisterBroker(2, b"2" * 16, "h2", 1))
    cluster.tell(BrokerHeartbeat(2, epoch, 10**9))
    cluster.tell(CreateTopics((NewTopic("t", b"t" * 16, assignments=((0, (1, 2)),)),)))


@in_world
async def test_a_node_registers_with_what_clients_and_nodes_need_and_is_unfenced_at_once(world: World) -> None:
    living = Living(Controlled(world))

    await living.start()

    own = living.cluster.image.brokers[1]
    assert (own.host, own.port, own.rack) == ("public", 19092, "r1")
    assert (own.internal_host, own.internal_port) == ("node1", 9092)
    assert not own.is_fenced
    assert not fenced(living)
    assert living.liveness.broker_epoch == own.epoch
    await living.liveness.shut_down()


@in_world
async def test_a_node_that_sees_its_registration_late_is_unfenced_when_it_does(world: World) -> None:
    living = Living(Controlled(world))
    living.cluster.is_held_back = True
    await living.start()
    await pass_time(0.01)
    assert fenced(living)
    beats = len(living.beats())

    living.cluster.is_held_back = False
    living.cluster.let_go()
    await pass_time(0.05)

    assert not fenced(living), "it need not wait for the next heartbeat"
    assert len(living.beats()) > beats
    await living.liveness.shut_down()


@in_world
async def test_a_new_disk_is_said_to_be_new_until_the_node_was_registered(world: World) -> None:
    """Also when the first process died before that."""
    cluster = Controlled(world)
    files = MemoryFiles()
    settle(cast(Any, files), 1, FakeChance(), CLUSTER_ID)
    files.crash()

    first = Living(cluster, files)
    await first.start()
    await first.liveness.shut_down()
    second = Living(cluster, files)
    await second.start()

    registrations = [one for one in cluster.asked if isinstance(one, RegisterBroker) and one.broker_id == 1]
    assert [one.has_lost_its_log for one in registrations] == [True, False]
    await second.liveness.shut_down()


async def processes(world: World, *lives: tuple[str, bool]) -> list[bool]:
    """One process after another on one disk, each with its durability and whether its stop was orderly. Which of them
    said, when they registered, that the last of what was acknowledged may be missing."""
    files, said = MemoryFiles(), []
    for durability, is_orderly in lives:
        cluster = Controlled(world, durability=durability)
        living = Living(cluster, files)
        await living.liveness.register({"PLAINTEXT": 9092})
        files.remove(CLEAN)
        living.liveness.start()
        await pass_time(0.05)
        [register] = [one for one in cluster.asked if isinstance(one, RegisterBroker)]
        said.append(register.has_lost_its_tail)
        await living.liveness.shut_down()
        if is_orderly:
            files.replace(CLEAN, b"")
        else:
            files.crash()
    return said


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        ([("os", False), ("os", True), ("os", True)], [False, True, False]),
        ([("sync", False), ("sync", True), ("sync", False)], [False, False, False]),
        ([("os", False), ("sync", True), ("sync", False), ("sync", True)], [False, True, False, False]),
        ([("os", False), ("sync", False), ("sync", True)], [False, True, True]),
        ([("os", True), ("sync", False), ("sync", True)], [False, False, False]),
        ([("sync", False), ("os", True)], [False, True]),
    ],
)
def test_who_did_not_wait_for_syncs_and_was_killed_says(lives: list[tuple[str, bool]], expected: list[bool]) -> None:
    """Who did not wait for syncs and was killed says that its last records may be missing. By what the process before
    it did, not by its own settings; in doubt it says so."""
    found: list[bool] = []

    @in_world
    async def inside(world: World) -> None:
        found.extend(await processes(world, *lives))

    inside()
    assert found == expected


@in_world
async def test_what_is_missing_is_said_once(world: World) -> None:
    """A process that was unregistered has all it had."""
    cluster = Controlled(world, durability="os")
    first = Living(cluster)
    await first.start()
    await first.liveness._stop()  # killed
    second = Living(cluster, first.files)
    second.liveness._incarnation_id = b"another process."
    await second.start()

    cluster.tell(UnregisterBroker(1))
    await pass_time(1)

    registrations = [one for one in cluster.asked if isinstance(one, RegisterBroker) and one.broker_id == 1]
    assert [one.has_lost_its_tail for one in registrations] == [False, True, False]
    await second.liveness.shut_down()


@in_world
async def test_what_only_a_lost_disk_had_is_said_in_the_log(world: World) -> None:
    cluster = Controlled(world)
    first = Living(cluster)
    await first.start()
    cluster.tell(CreateTopics((NewTopic("t", b"t" * 16, assignments=((0, (1,)),)),)))
    await first.liveness.shut_down()
    await pass_time(3)
    cluster.take(cluster.machine.expire(round(world.loop.time() * 1000)).facts)
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("chronik.node.cluster.liveness").addHandler(handler)

    second = Living(cluster)
    await second.start()

    logging.getLogger("chronik.node.cluster.liveness").removeHandler(handler)
    assert any("t-0" in message and "only copy" in message for message in said)
    partition = cluster.image.partition("t", 0)
    assert partition is not None
    assert partition.leader == 1
    await second.liveness.shut_down()


@in_world
async def test_a_node_that_was_killed_waits_for_its_own_session_to_end(world: World) -> None:
    cluster = Controlled(world)
    killed = Living(cluster)
    await killed.start()
    await killed.liveness._stop()

    again = Living(cluster, killed.files)
    again.liveness._incarnation_id = b"another one here"
    await again.start()

    assert cluster.image.brokers[1].incarnation_id == b"another one here"
    await again.liveness.shut_down()


@in_world
async def test_a_node_waits_anew_for_its_own_session_to_end_with_each_controller(world: World) -> None:
    """Each of them gives every broker a session to be heard of in."""
    cluster = Controlled(world, broker_session_timeout_ms="2000")
    session_s = cluster.config.liveness.broker_session_timeout_ms / 1000
    killed = Living(cluster)
    await killed.start()
    await killed.liveness._stop()
    again = Living(cluster)  # with a new disk, so nothing says that it is the same node
    again.liveness._incarnation_id = b"another one here"

    registering = asyncio.ensure_future(again.liveness.register({"PLAINTEXT": 9092}))
    for _ in range(2 * TWIN_MS_MIN // 1600):
        await pass_time(session_s * 0.8)
        assert not registering.done(), "the old registration has a session"
        cluster.elect()
    await pass_time(session_s * 1.5)

    assert registering.done()
    await registering
    assert cluster.image.brokers[1].incarnation_id == b"another one here"
    await again.liveness.shut_down()


@in_world
async def test_a_node_waits_for_a_session_that_is_longer_at_the_controller_than_here(world: World) -> None:
    cluster = Controlled(world, broker_session_timeout_ms="1000", broker_heartbeat_interval_ms="200")
    cluster.session_timeout_ms = 9_000
    cluster.elect()
    killed = Living(cluster)
    await killed.start()
    await killed.liveness._stop()
    again = Living(cluster)  # with a new disk
    again.liveness._incarnation_id = b"another one here"

    await again.start()

    assert cluster.image.brokers[1].incarnation_id == b"another one here"
    await again.liveness.shut_down()


@in_world
async def test_two_nodes_with_one_id_are_one_too_many(world: World) -> None:
    cluster = Controlled(world)
    first = Living(cluster)
    await first.start()
    second = Living(cluster)
    second.liveness._incarnation_id = b"another one here"

    with pytest.raises(NotTakenIn, match="another node with id 1 is alive at node1:9092"):
        await second.liveness.register({"PLAINTEXT": 9092})

    assert not first.liveness.is_fenced
    await first.liveness.shut_down()


@in_world
async def test_a_node_whose_number_another_has_taken_for_good_has_to_end(world: World) -> None:
    """As after a machine was cloned: both are at one address, as far as they know."""
    cluster = Controlled(world)
    first = Living(cluster)
    await first.start()
    clone = Living(cluster, first.files)
    clone.liveness._incarnation_id = b"another one here"
    await clone.start()
    assert cluster.image.brokers[1].incarnation_id == b"another one here"

    await pass_time(first.cluster.config.liveness.broker_session_timeout_ms / 1000)
    assert not first.liveness.has_to_end.is_set(), "the other may have been a short mistake"
    await pass_time(TWIN_MS_MIN / 1000)

    assert first.liveness.has_to_end.is_set()
    assert not clone.liveness.has_to_end.is_set()
    assert not fenced(clone)
    await first.liveness.shut_down()
    await clone.liveness.shut_down()


@in_world
async def test_a_node_whose_number_was_taken_for_a_while_stays_through_elections(world: World) -> None:
    """The other is gone; only its session goes on, with each controller anew."""
    cluster = Controlled(world, broker_session_timeout_ms="2000")
    session_s = cluster.config.liveness.broker_session_timeout_ms / 1000
    first = Living(cluster)
    await first.start()
    clone = Living(cluster, first.files)
    clone.liveness._incarnation_id = b"another one here"
    await clone.start()
    await clone.liveness._stop()  # killed

    for _ in range(2 * TWIN_MS_MIN // 1600):
        await pass_time(session_s * 0.8)
        cluster.elect()
    await pass_time(session_s * 2)

    assert not first.liveness.has_to_end.is_set()
    assert not fenced(first)
    await first.liveness.shut_down()


@in_world
async def test_a_node_whose_number_was_taken_for_a_while_serves_again(world: World) -> None:
    cluster = Controlled(world)
    first = Living(cluster)
    await first.start()
    clone = Living(cluster, first.files)
    clone.liveness._incarnation_id = b"another one here"
    await clone.start()
    await pass_time(1)
    await clone.liveness._stop()  # killed

    await pass_time(3 * first.cluster.config.liveness.broker_session_timeout_ms / 1000)

    assert not fenced(first)
    assert not first.liveness.has_to_end.is_set()
    await first.liveness.shut_down()


@in_world
async def test_a_node_of_another_cluster_is_told_at_once(world: World) -> None:
    cluster = Controlled(world)
    cluster.image.cluster_id = "another"
    living = Living(cluster)

    with pytest.raises(NotTakenIn, match="refuses this node"):
        await living.liveness.register({"PLAINTEXT": 9092})


@in_world
async def test_a_node_registers_when_there_is_a_controller_at_last(world: World) -> None:
    cluster = Controlled(world)
    cluster.is_known = False
    living = Living(cluster)
    starting = asyncio.create_task(living.start())
    await pass_time(20)
    assert not starting.done()

    cluster.is_known = True
    await starting

    assert not fenced(living)
    await living.liveness.shut_down()


@in_world
async def test_a_node_goes_on_reporting_when_the_controller_changes(world: World) -> None:
    cluster = Controlled(world)
    living = Living(cluster)
    await living.start()
    cluster.is_known = False
    await pass_time(5)

    cluster.controller_id, cluster.is_known = 1, True
    cluster.asked.clear()
    await pass_time(2)

    assert len(living.beats()) >= 3
    assert world.metrics.faults == 0
    await living.liveness.shut_down()


@in_world
async def test_a_node_that_was_unregistered_registers_again(world: World) -> None:
    cluster = Controlled(world)
    living = Living(cluster)
    await living.start()
    cluster.tell(UnregisterBroker(1))
    assert fenced(living)

    await pass_time(1)

    assert not fenced(living)
    last = [one for one in cluster.asked if isinstance(one, RegisterBroker)][-1]
    assert not last.has_lost_its_log
    again = settle(cast(Any, living.files), 1, FakeChance(), CLUSTER_ID)
    assert again.broker_epoch == living.liveness.broker_epoch, "a restart shows the registration that holds"
    await living.liveness.shut_down()


@in_world
async def test_a_node_that_stops_hands_over_first(world: World) -> None:
    cluster = Controlled(world)
    living = Living(cluster)
    await living.start()
    with_a_leader_elsewhere(cluster)
    partition = cluster.image.partition("t", 0)
    assert partition is not None
    assert partition.leader == 1
    began = world.loop.time()

    await living.liveness.shut_down()

    partition = cluster.image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.in_sync) == (2, (2,))
    assert cluster.image.brokers[1].is_fenced
    assert world.loop.time() - began < 0.5


@in_world
async def test_a_node_that_nobody_lets_go_stops_all_the_same_and_says_why(
    world: World,
) -> None:
    cluster = Controlled(world)
    living = Living(cluster)
    await living.start()
    with_a_leader_elsewhere(cluster)
    cluster.is_known = False
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("chronik.node.cluster.liveness").addHandler(handler)
    began = world.loop.time()

    await living.liveness.shut_down()

    logging.getLogger("chronik.node.cluster.liveness").removeHandler(handler)
    took_ms = (world.loop.time() - began) * 1000
    assert SHUT_DOWN_MS_MAX <= took_ms < SHUT_DOWN_MS_MAX + 200
    assert any("without having handed over" in message and "no controller" in message for message in said)


@in_world
async def test_the_last_node_has_nothing_to_hand_over(world: World) -> None:
    cluster = Controlled(world)
    living = Living(cluster)
    await living.start()
    cluster.is_known = False
    began = world.loop.time()

    await living.liveness.shut_down()

    assert world.loop.time() == began


@in_world
async def test_another_that_leaves_need_not_wait_for_the_next_heartbeat_of_this_node(world: World) -> None:
    cluster = Controlled(world)
    living = Living(cluster)
    await living.start()
    with_a_leader_elsewhere(cluster)
    epoch = cluster.image.brokers[2].epoch
    cluster.tell(CreateTopics((NewTopic("u", b"u" * 16, assignments=((0, (2, 1)),)),)))
    before = len(living.beats())

    cluster.tell(BrokerHeartbeat(2, epoch, 10**9, wants_shut_down=True))
    await pass_time(0.02)

    assert [beat.seen_version for beat in living.beats()[before + 1 :]] == [cluster.image.version]
    await living.liveness.shut_down()


@in_world
async def test_a_node_that_is_alone_serves_from_the_start_and_reports_to_nobody(world: World) -> None:
    cluster = Controlled(world, is_alone=True)
    living = Living(cluster)

    await living.start()
    await pass_time(5)
    await living.liveness.shut_down()

    [register] = cluster.asked
    assert isinstance(register, RegisterBroker)
    assert not register.has_lost_its_log
    assert (register.host, register.port, register.internal_host) == ("127.0.0.1", 9092, "127.0.0.1")
    assert not fenced(living)
    assert settle(cast(Any, living.files), 1, FakeChance()).was_registered


@in_world
async def test_a_node_that_began_alone_and_has_followers_now_leads_in_a_new_epoch(world: World) -> None:
    """A node that began alone and has followers now leads in a new epoch after a restart. It may have lost what was not
    synced, and what a follower has of that: it must not write others in its place."""
    cluster = Controlled(world, is_alone=True)
    first = Living(cluster)
    await first.start()
    with_a_leader_elsewhere(cluster)
    before = cluster.image.partition("t", 0)
    assert before is not None
    assert before.leader == 1
    await first.liveness._stop()  # killed

    second = Living(cluster, first.files, Identity(1, CLUSTER_ID, broker_epoch=first.liveness.broker_epoch))
    second.liveness._incarnation_id = b"another process."
    await second.liveness.register({"PLAINTEXT": 9092})

    after = cluster.image.partition("t", 0)
    assert after is not None
    assert after.leader_epoch > before.leader_epoch


@in_world
async def test_a_node_that_is_alone_and_was_unregistered_registers_again(world: World) -> None:
    cluster = Controlled(world, is_alone=True)
    living = Living(cluster)
    await living.start()
    cluster.tell(UnregisterBroker(1))
    assert fenced(living)

    await pass_time(1)

    assert not fenced(living)
    await living.liveness.shut_down()


def test_a_node_that_listens_everywhere_is_reached_where_it_is_advertised() -> None:
    @in_world
    async def inside(world: World) -> None:
        cluster = Controlled(world, is_alone=True, listeners="PLAINTEXT://0.0.0.0:0")
        living = Living(cluster)
        await living.liveness.register({"PLAINTEXT": 4711})
        own = cluster.image.brokers[1]
        assert (own.host, own.port, own.internal_host, own.internal_port) == ("localhost", 4711, "localhost", 4711)

    inside()


def test_final_codes_are_those_that_no_later_try_would_change() -> None:
    from chronik.node.cluster.liveness import FINAL

    assert Code.DUPLICATE_BROKER_REGISTRATION not in FINAL
    assert Code.NOT_CONTROLLER not in FINAL
