"""Two images: what is safe, which everybody sees, and the controller's, which runs ahead of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import (
    CreateInternalTopic,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicToDelete,
)
from chronik.core.machines.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.unit.node.peer_world import pass_time
from tests.unit.node.quorum_world import Member, QuorumWorld, in_quorum


@in_quorum()
async def test_what_is_decided_is_seen_when_it_is_safe_and_the_answer_comes_after_it(world: QuorumWorld) -> None:
    controller = await world.start()
    world.cut(controller)
    told: list[str] = []
    controller.subscribers.append(lambda facts: told.append("applied"))

    asked = controller.asked("orders")
    asked.add_done_callback(lambda _: told.append("answered"))
    await pass_time(0.1)

    # Written, and no other node has it: it is in no image that anybody reads.
    assert controller.quorum.log.end_offset > controller.image.version
    assert controller.topics() == []
    assert told == []
    world.wires.heal()
    await asked
    assert controller.topics() == ["orders"]
    await pass_time(0)
    assert told == ["applied", "answered"]


@in_quorum()
async def test_the_controller_decides_on_what_it_has_decided_before(world: QuorumWorld) -> None:
    controller = await world.start()
    world.cut(controller)

    first, second = controller.asked("orders"), controller.asked("orders")
    await pass_time(0.05)
    world.wires.heal()

    (created,), (again,) = await first, await second
    assert created.outcome.code is Code.NONE
    assert again.outcome.code is Code.TOPIC_ALREADY_EXISTS


@in_quorum()
async def test_the_controller_says_how_many_voters_there_are_before_they_have_registered(world: QuorumWorld) -> None:
    controller = await world.start()

    with pytest.raises(Refused, match="replication factor of 3"):
        await controller.metadata.ask_here(CreateInternalTopic("__consumer_offsets", bytes(16)))


@in_quorum()
async def test_whoever_waits_when_the_office_is_lost_is_told_to_ask_another(world: QuorumWorld) -> None:
    controller = await world.start()
    world.cut(controller)

    asked = [controller.asked(f"topic-{number}") for number in range(5)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)

    assert [getattr(outcome, "code", None) for outcome in outcomes] == [Code.NOT_CONTROLLER] * 5
    assert not controller.metadata.is_controller
    with pytest.raises(Refused) as refused:
        controller.asked("later")
    assert refused.value.code is Code.NOT_CONTROLLER


@in_quorum()
async def test_only_the_controller_answers(world: QuorumWorld) -> None:
    controller = await world.start()
    for member in world.others(controller):
        assert member.metadata.controller_id == controller.node_id
        with pytest.raises(Refused) as refused:
            member.asked("orders")
        assert refused.value.code is Code.NOT_CONTROLLER


@in_quorum()
async def test_all_nodes_are_told_the_same_facts_in_the_same_order(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders", 2)
    await controller.metadata.ask_here(DeleteTopics((TopicToDelete(name="orders"),)))
    await controller.create("again")
    await world.agreed()

    facts = [member.applied for member in world.up]

    assert facts[0] == facts[1] == facts[2]
    kinds = [type(fact) for fact in facts[0]]
    assert kinds.count(TopicRecord) == 2
    assert kinds.count(RemoveTopicRecord) == 1


@in_quorum()
async def test_nodes_with_the_same_offset_have_the_same_version(world: QuorumWorld) -> None:
    """Broker epochs and heartbeats are counted in it (KIP-631)."""
    first = await world.start()
    await first.create("orders")
    first.kill()
    second = await world.controller()
    await second.create("more")
    await first.start()
    await world.agreed()

    assert {member.image.version for member in world.up} == {second.quorum.log.end_offset}


@in_quorum()
async def test_a_follower_waits_until_it_has_what_the_controller_has(world: QuorumWorld) -> None:
    controller = await world.start()
    follower = world.others(controller)[0]
    await controller.create("orders")

    assert await follower.metadata.wait_until_caught_up(1000)

    assert follower.topics() == ["orders"]
    assert await controller.metadata.wait_until_caught_up(1000)
    world.cut(follower)
    began = world.loop.time()
    assert not await follower.metadata.wait_until_caught_up(500)
    assert 0.4 < world.loop.time() - began < 2


@in_quorum()
async def test_a_leader_that_was_just_elected_is_not_caught_up_before_its_first_record_is_committed(
    world: QuorumWorld,
) -> None:
    """What the leader before committed may be beyond the watermark that it has heard of."""
    controller = await world.start()
    await controller.create("orders")
    controller.kill()
    elected: list[Member] = []
    while not elected:
        await pass_time(0.0002)
        elected = [member for member in world.up if member.quorum.raft.is_leader]
    assert not elected[0].metadata.is_controller, "its first record is on the way"

    world.cut(elected[0])

    assert not await elected[0].metadata.wait_until_caught_up(300)
    world.wires.heal()
    successor = await world.controller()
    assert await successor.metadata.wait_until_caught_up(1000)
    assert successor.topics() == ["orders"]


@in_quorum()
async def test_a_node_is_current_where_its_leader_has_a_majority(world: QuorumWorld) -> None:
    controller = await world.start()
    follower = world.others(controller)[0]
    await controller.create("orders")

    assert await follower.metadata.wait_until_current(1000)
    assert follower.topics() == ["orders"]
    assert await controller.metadata.wait_until_current(1000)
    assert await controller.metadata.wait_until_current(20, contact_ms=1000)  # a majority was there a moment ago


@in_quorum()
async def test_a_leader_that_is_cut_off_is_not_current(
    world: QuorumWorld,
) -> None:
    """A leader that is cut off is not current though it still believes that it leads."""
    controller = await world.start()
    await controller.create("orders")
    world.cut(controller)
    await pass_time(0.1)  # the last fetches were a while ago

    assert not await controller.metadata.wait_until_current(500)
    assert await controller.metadata.wait_until_current(500, contact_ms=1000)

    assert controller.metadata.is_controller


@in_quorum()
async def test_a_leader_that_was_stopped_for_a_while_is_not_current_when_it_goes_on(world: QuorumWorld) -> None:
    """The fetches that waited at it are due at once. That is no word from their senders, which have elected another."""
    controller = await world.start()
    stopped = controller.process
    assert stopped is not None
    stopped.is_paused = True
    world.cut(controller)
    successor = await world.controller(without=controller)
    await successor.create("orders")

    look = controller.metadata.wait_until_current(500, contact_ms=1000)
    looking = world.loop.create_task(look, context=stopped.context)
    world.loop.resume(stopped)

    assert not await looking
    assert controller.topics() == []


@in_quorum()
async def test_a_follower_that_is_cut_off_is_not_current(world: QuorumWorld) -> None:
    controller = await world.start()
    follower = world.others(controller)[0]
    world.cut(follower)

    assert not await follower.metadata.wait_until_current(500, contact_ms=1000)


@in_quorum()
async def test_waiting_for_something_ends_when_it_is_there_or_time_is_up(world: QuorumWorld) -> None:
    controller = await world.start()
    follower = world.others(controller)[0]
    waiting = asyncio.create_task(follower.metadata.wait_for(lambda: "orders" in follower.topics(), 5_000))
    await pass_time(0.01)

    await controller.create("orders")

    assert await waiting
    assert await follower.metadata.wait_for(lambda: True, 0)
    assert not await follower.metadata.wait_for(lambda: False, 50)


@in_quorum()
async def test_a_listener_that_fails_does_not_keep_the_others_from_hearing(world: QuorumWorld) -> None:
    controller = await world.start()
    heard: list[Any] = []

    def fails(facts: list[Any]) -> None:
        raise ValueError("on purpose")

    controller.subscribers[:0] = [fails]
    controller.subscribers.append(heard.extend)
    await controller.create("orders")

    assert any(isinstance(fact, TopicRecord) for fact in heard)
    assert controller.metrics.faults > 0
    controller.metrics.faults = 0  # it was meant to


@in_quorum()
async def test_a_snapshot_that_takes_the_place_of_the_log_is_told_as_facts(world: QuorumWorld) -> None:
    # Given a node that knows of a topic, and was away when that was deleted and the log cut
    for member in world.members.values():
        member.snapshot_records = 15
    controller = await world.start()
    await controller.create("gone", 2)
    await world.agreed()
    away = world.others(controller)[0]
    image = away.image
    world.cut(away)
    await controller.metadata.ask_here(DeleteTopics((TopicToDelete(name="gone"),)))
    for number in range(30):
        await controller.create(f"topic-{number}", 2)
    away.applied.clear()
    # When it is back
    world.wires.heal()
    await world.agreed()
    # Then its image, the same object, has what there is, and it was told what went and what came
    assert away.image is image
    assert "gone" not in away.topics()
    assert len(away.topics()) == 30
    gone = [fact.topic_id for fact in away.applied if isinstance(fact, RemoveTopicRecord)]
    assert gone == [b"gone".ljust(16, b"-")]
    assert sum(isinstance(fact, PartitionRecord) for fact in away.applied) >= 60


@in_quorum(count=1)
async def test_a_topic_of_many_partitions_is_one_batch(world: QuorumWorld) -> None:
    controller = await world.start()
    topic = NewTopic("large", b"large".ljust(16, b"-"), 5_000, 1)

    await controller.metadata.ask_here(CreateTopics((topic,)))

    assert len(controller.image.topics["large"].partitions) == 5_000


@in_quorum(count=1)
async def test_a_log_of_a_version_without_a_quorum_is_taken_over(world: QuorumWorld) -> None:
    """Data directories of earlier versions have records of epoch 0, no LeaderChange and no quorum-state."""
    member = world[1]
    first = await world.start()
    await first.create("orders", 2)
    await world.stop()
    for name in ("quorum-state", "leader-epoch-checkpoint"):
        member.disk.remove(f"__cluster_metadata-0/{name}")

    await world.start()

    assert member.topics() == ["orders"]
    assert member.quorum.epoch >= 2
