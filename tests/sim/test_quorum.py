"""Bad days of three real quorums: members are killed, lose power or are cut off while topics are created.

Whatever was answered is there in the end, whatever was refused before anything was written is not, and no image ever
takes anything back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from chronik.core.errors import Refused
from chronik.sim.chance import SimChance
from tests.unit.node.peer_world import pass_time
from tests.unit.node.quorum_world import Member, QuorumWorld, in_quorum

SEEDS_A_BLOCK = 5
FAULTY_S = 12.0


class BadDay:
    """One history: faults for a while, then none, and then all must agree."""

    def __init__(self, world: QuorumWorld, happened: Counter[str]) -> None:
        self.world = world
        self.dice = SimChance(world.seed, "bad day")
        self.happened = happened
        self.answered: list[str] = []
        self.refused: list[str] = []
        self.seen: dict[int, list[str]] = {}
        self.starts: dict[int, int] = {}
        self.is_over = False

    async def live(self) -> None:
        for member in self.world.members.values():
            member.snapshot_records = 15
            await member.start()
        await self.world.controller()
        asking = asyncio.create_task(self.ask())
        until = self.world.loop.time() + FAULTY_S
        while self.world.loop.time() < until:
            await pass_time(self.dice.between(0.05, 0.8))
            await self.misfortune()
            self.look()
        self.is_over = True
        self.world.wires.heal()
        for member in self.world.members.values():
            if not member.is_up:
                await member.start()
        await asking
        await self.settle()

    async def ask(self) -> None:
        """Clients of whatever is the controller. All are asked who believe it, also a deposed one."""
        number = 0
        while not self.is_over:
            await pass_time(self.dice.between(0.005, 0.1))
            for member in self.world.up:
                if member.metadata.is_controller:
                    number += 1
                    asyncio.get_running_loop().create_task(self.ask_one(member, f"topic-{number}"))

    async def ask_one(self, member: Member, name: str) -> None:
        try:
            if not member.image.brokers:
                await member.register()
            await member.create(name)
        except Refused:
            self.refused.append(name)
            return
        assert name in member.image.topics, f"{name} was answered, and is not in the image"
        self.answered.append(name)

    async def misfortune(self) -> None:
        members = list(self.world.members.values())
        member = self.dice.one_of(members)
        what = self.dice.weighted({"kill": 3, "power": 3, "kill the leader": 3, "cut": 3, "heal": 3, "start": 8})
        if what == "start":
            for one in members:
                if not one.is_up:
                    await one.start()
            return
        self.happened[what] += 1
        if what == "heal":
            self.world.wires.heal()
        elif what == "cut":
            self.world.cut(member)
        elif what == "kill the leader":
            for one in self.world.up:
                if one.metadata.is_controller:
                    one.kill()
        elif member.is_up:
            if what == "kill":
                member.kill()
            else:
                member.power_cut()

    def look(self) -> None:
        """No image takes a topic back, as long as its process lives."""
        for member in self.world.up:
            topics = member.topics()
            if self.starts.get(member.node_id) == member.starts:
                before = self.seen[member.node_id]
                assert topics[: len(before)] == before, f"node {member.node_id} took something back"
            self.starts[member.node_id], self.seen[member.node_id] = member.starts, topics
            assert member.metrics.faults == 0

    async def settle(self) -> None:
        world = self.world
        controller = await world.controller()
        await controller.create("the-last-one")
        await world.until(lambda: all("the-last-one" in member.topics() for member in world.up), "agreement")
        topics = world.up[0].topics()
        for member in world.up:
            assert member.topics() == topics
        assert not [name for name in self.answered if name not in topics], "answered, and lost"
        self.happened["answered"] += len(self.answered)
        self.happened["refused"] += len(self.refused)
        self.happened["epochs"] += controller.quorum.epoch
        self.happened["snapshots"] += controller.quorum.log.snapshot is not None
        self.look()


@pytest.mark.parametrize("block", range(4))
def test_whatever_was_answered_is_there_in_the_end(block: int) -> None:
    logging.disable(logging.CRITICAL)
    happened: Counter[str] = Counter()
    try:
        for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):

            async def one(world: QuorumWorld) -> None:
                await BadDay(world, happened).live()

            try:
                in_quorum(seed=seed)(one)()
            except Exception as problem:
                raise AssertionError(f"seed {seed}: {problem}") from problem
    finally:
        logging.disable(logging.NOTSET)
    # Were the days bad enough?
    for what, at_least in {"answered": 100, "refused": 1, "epochs": 10, "kill": 2, "power": 2, "cut": 2}.items():
        assert happened[what] >= at_least, f"too quiet: {happened}"
