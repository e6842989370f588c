"""The controller knows when the other nodes have applied what it decided, and waits for no dead one."""

from __future__ import annotations

import asyncio

from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.controller_commands import UnregisterBroker
from tests.unit.node.peer_world import pass_time
from tests.unit.node.quorum_world import BROKER, Member, QuorumWorld, in_quorum

BOUND_MS = 500


async def start(world: QuorumWorld) -> Member:
    """All members are brokers too. Returns the controller."""
    controller = await world.start()
    for node_id in world.members:
        await controller.metadata.ask_here(
            RegisterBroker(node_id, bytes(15) + bytes([node_id]), f"node{node_id}", 9092)
        )
    await controller.metadata.ask_here(UnregisterBroker(BROKER))
    await controller.metadata.wait_until_applied(10_000)
    return controller


async def waited_ms(world: QuorumWorld, controller: Member) -> int:
    began = world.loop.time()
    await controller.metadata.wait_until_applied(BOUND_MS)
    return round((world.loop.time() - began) * 1000)


@in_quorum()
async def test_when_the_wait_is_over_every_node_has_the_topic(world: QuorumWorld) -> None:
    controller = await start(world)

    for number in range(30):
        await controller.create(f"topic-{number}")
        assert await waited_ms(world, controller) < BOUND_MS
        assert [member.topics()[-1] for member in world.up] == [f"topic-{number}"] * 3


@in_quorum()
async def test_the_answer_alone_does_not_say_that_others_have_it(world: QuorumWorld) -> None:
    controller = await start(world)

    await controller.create("orders")

    assert [member.topics() for member in world.others(controller)] == [[], []]


@in_quorum()
async def test_a_node_that_is_silent_is_waited_for_once_and_again_when_it_is_back(world: QuorumWorld) -> None:
    controller = await start(world)
    silent = world.others(controller)[0]
    world.cut(silent)

    await controller.create("first")
    assert await waited_ms(world, controller) == BOUND_MS
    await controller.create("second")
    assert await waited_ms(world, controller) < BOUND_MS / 2

    world.wires.heal()
    await world.agreed()
    await pass_time(1)
    await controller.create("third")
    await waited_ms(world, controller)
    assert silent.topics() == controller.topics()


@in_quorum()
async def test_a_node_that_is_no_broker_any_more_is_not_waited_for_any_longer(world: QuorumWorld) -> None:
    controller = await start(world)
    silent = world.others(controller)[0]
    world.cut(silent)
    await controller.create("orders")

    waiting = asyncio.ensure_future(waited_ms(world, controller))
    await pass_time(0.05)
    assert not waiting.done()
    await controller.metadata.ask_here(UnregisterBroker(silent.node_id))

    assert await waiting < BOUND_MS / 2


@in_quorum()
async def test_whoever_is_not_the_controller_any_more_waits_for_nobody(world: QuorumWorld) -> None:
    controller = await start(world)
    await controller.create("orders")
    world.cut(controller)
    waiting = asyncio.ensure_future(controller.metadata.wait_until_applied(60_000))

    await world.until(lambda: not controller.metadata.is_controller, "its end")

    await waiting
    assert await waited_ms(world, controller) == 0
