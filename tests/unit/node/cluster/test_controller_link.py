"""Whoever asks the controller does not notice where it is, nor that it changes."""

from __future__ import annotations

import asyncio

import pytest

from chronik.api.applied import APPLIED_MS_MAX
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateTopics, DeleteTopics, NewTopic, RegisterBroker, TopicToDelete
from chronik.core.machines.metadata.controller_commands import BrokerHeartbeat
from tests.unit.node.controlled import Controlled
from tests.unit.node.peer_world import World, in_world, pass_time

REGISTER = RegisterBroker(1, bytes(16), "h", 9092, is_fenced=True)


async def ready(world: World) -> Controlled:
    cluster = Controlled(world)
    epoch = await cluster.link.ask(REGISTER)
    await cluster.link.ask(BrokerHeartbeat(1, epoch, 99))
    return cluster


@in_world
async def test_the_controller_is_asked_here_when_it_is_here(world: World) -> None:
    cluster = Controlled(world)
    cluster.controller_id = 1

    await cluster.link.ask(REGISTER)

    assert cluster.asked == [REGISTER]
    assert world.two.heard == []
    assert cluster.link.is_controller
    assert cluster.link.controller_id == 1


@in_world
async def test_a_question_waits_for_the_next_controller(world: World) -> None:
    cluster = Controlled(world)
    cluster.is_known = False
    asked = asyncio.create_task(cluster.link.ask(REGISTER))
    await pass_time(2)
    assert not asked.done()

    cluster.is_known = True

    assert await asked == cluster.image.brokers[1].epoch


@in_world
async def test_a_node_that_is_not_the_controller_any_longer_is_asked(world: World) -> None:
    """A node that is not the controller any longer is asked until the next is known."""
    cluster = Controlled(world)
    cluster.controller_id = 3  # and this node believes it; nothing is there
    asked = asyncio.create_task(cluster.link.ask(REGISTER))
    await pass_time(0.5)

    cluster.controller_id = 2

    assert await asked == cluster.image.brokers[1].epoch
    assert world.refused, "somebody was told that node 3 is gone"


@in_world
async def test_a_controller_that_dies_before_it_answers_has_the_next_asked_again(world: World) -> None:
    cluster = await ready(world)
    world.two.hear = lambda other, header, frame: other.hang_up()
    asked = asyncio.create_task(cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),))))
    await pass_time(0.2)
    assert not asked.done()

    cluster.controller_id = 1

    [made] = await asked
    assert made.outcome.code == Code.NONE


@in_world
async def test_what_was_created_is_in_the_image_of_this_node_when_it_is_answered(world: World) -> None:
    cluster = await ready(world)
    cluster.is_held_back = True
    asked = asyncio.create_task(cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),))))
    await pass_time(1)
    assert not asked.done()
    assert cluster.image.topic("a") is None

    cluster.let_go()

    await asked
    assert cluster.image.topic("a") is not None


@in_world
async def test_a_topic_that_was_there_already_is_waited_for_as_well(world: World) -> None:
    cluster = await ready(world)
    cluster.is_held_back = True
    cluster.tell(CreateTopics((NewTopic("a", bytes(16), 1, 1),)))
    asked = asyncio.create_task(cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),))))
    await pass_time(1)
    assert not asked.done()

    cluster.let_go()

    [made] = await asked
    assert made.outcome.code == Code.TOPIC_ALREADY_EXISTS


@in_world
async def test_a_topic_that_is_made_here_is_known_to_the_live_brokers_too(world: World) -> None:
    """A topic that is made here is known to the live brokers too when it is answered."""
    cluster = await ready(world)
    cluster.controller_id = 1

    await cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),)))

    assert cluster.metadata.waited_ms == [APPLIED_MS_MAX]


@in_world
async def test_nobody_waits_for_what_was_only_tried(world: World) -> None:
    cluster = await ready(world)

    [made] = await cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),), validate_only=True))

    assert made.outcome.code == Code.NONE
    assert cluster.image.topic("a") is None


@in_world
async def test_an_image_that_does_not_follow_holds_nobody_up_for_ever(world: World) -> None:
    cluster = await ready(world)
    cluster.is_held_back = True

    [made] = await cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),)), timeout_ms=700)

    assert made.outcome.code == Code.NONE


@in_world
async def test_a_question_that_nobody_answers_in_time_is_refused(world: World) -> None:
    cluster = Controlled(world)
    cluster.is_known = False
    began = world.loop.time()

    with pytest.raises(Refused, match="no controller answered in 300 ms") as refused:
        await cluster.link.ask(REGISTER, 300)

    assert refused.value.code == Code.NOT_CONTROLLER
    assert 0.3 <= world.loop.time() - began < 0.4


@in_world
async def test_a_controller_here_that_gets_nothing_safe_does_not_hold_a_question_for_ever(world: World) -> None:
    cluster = Controlled(world)
    cluster.controller_id = 1
    cluster.is_stuck = True

    with pytest.raises(Refused, match="nothing was safe"):
        await cluster.link.ask(REGISTER, 300)


@in_world
async def test_a_refusal_is_an_answer(world: World) -> None:
    cluster = Controlled(world)

    with pytest.raises(Refused) as refused:
        await cluster.link.ask(BrokerHeartbeat(1, 7, 0))

    assert refused.value.code == Code.STALE_BROKER_EPOCH
    assert cluster.times_asked(BrokerHeartbeat) == 1


@in_world
async def test_what_only_clients_ask_is_decided_here_or_not_at_all(world: World) -> None:
    cluster = Controlled(world)
    command = DeleteTopics((TopicToDelete(name="a"),))

    with pytest.raises(Refused) as refused:
        await cluster.link.ask(command)
    assert refused.value.code == Code.NOT_CONTROLLER
    cluster.controller_id = 1

    [deleted] = await cluster.link.ask(command)

    assert deleted.outcome.code == Code.UNKNOWN_TOPIC_OR_PARTITION


@in_world
async def test_all_topics_of_one_request_are_waited_for(world: World) -> None:
    cluster = await ready(world)
    await cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),)))
    cluster.is_held_back = True
    both = (NewTopic("a", bytes(16), 1, 1), NewTopic("b", b"b" * 16, 1, 1))
    asked = asyncio.create_task(cluster.link.ask(CreateTopics(both)))
    await pass_time(1)
    assert not asked.done()

    cluster.let_go()

    assert [made.name for made in await asked] == ["a", "b"]


@in_world
async def test_news_of_something_else_does_not_end_the_wait_for_a_topic(world: World) -> None:
    # F17: of what happened only the first part was looked at.
    cluster = await ready(world)
    cluster.is_held_back = True
    asked = asyncio.create_task(cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),))))
    await pass_time(1)
    cluster.metadata.waits.look_again()
    await pass_time(0.1)
    assert not asked.done()

    began = world.loop.time()
    cluster.let_go()

    await asked
    assert world.loop.time() - began < 0.1


@in_world
async def test_a_controller_that_hangs_does_not_use_up_the_time(world: World) -> None:
    """A controller that hangs does not use up the time in which the next could answer."""
    cluster = await ready(world)
    world.two.hear = lambda other, header, frame: None
    asked = asyncio.create_task(cluster.link.ask(CreateTopics((NewTopic("a", bytes(16), 1, 1),))))
    await pass_time(0.5)

    cluster.controller_id = 1

    [made] = await asked
    assert made.outcome.code == Code.NONE
