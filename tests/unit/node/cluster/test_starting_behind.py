"""A node that starts and has not heard yet what became of its topics: whole nodes on simulated hosts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.core.machines.metadata.commands import CreateTopics, DeleteTopics, NewTopic, TopicToDelete
from chronik.node.node import Node
from chronik.sim.chance import SimChance
from chronik.sim.checkers import Judge
from chronik.sim.host import Host
from chronik.sim.loop import SimLoop, SimProcess
from chronik.sim.network import WireMood, Wires
from chronik.sim.plans import PORT, host_name
from chronik.sim.story import WorldStory
from tests.unit.core.log.logs import batch_of
from tests.unit.node.peer_world import pass_time

pytestmark = pytest.mark.usefixtures("quiet")

IDS = (1, 2, 3)
OTHER = NewTopic("other", b"other".ljust(16, b"-"), assignments=((0, IDS),))
LATE = NewTopic("late", b"late".ljust(16, b"-"), assignments=((0, IDS),))


class Three:
    """Three hosts with a node each."""

    def __init__(self, loop: SimLoop) -> None:
        story = WorldStory(loop.time)
        self.loop = loop
        self.wires = Wires(loop, SimChance(1, "wires"), story)
        settings = {
            "cluster.id": "a-test-cluster",
            "controller.quorum.voters": ",".join(f"{n}@{host_name(n)}:{PORT}" for n in IDS),
        }
        judge = Judge(story, len(IDS))
        self.hosts = {n: Host(n, settings, loop, self.wires, SimChance(n, "host"), judge, story) for n in IDS}

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.hosts[node_id].start()
        await self.until(lambda: all(self.hosts[node_id].is_up for node_id in node_ids))

    async def until(self, is_there: Callable[[], bool]) -> None:
        until = self.loop.time() + 60
        while not is_there():
            assert self.loop.time() < until, "it did not come"
            await pass_time(0.01)

    def node(self, node_id: int) -> Node:
        node = self.hosts[node_id].node
        assert node is not None
        return node

    async def ask(self, command: Any) -> None:
        """The controller, once there is one."""
        up = [host for host in self.hosts.values() if host.is_up]
        await self.until(lambda: any(host.node is not None and host.node.cluster.metadata.is_controller for host in up))
        [host] = [host for host in up if host.node is not None and host.node.cluster.metadata.is_controller]
        assert host.node is not None
        assert host.process is not None
        await self.loop.create_task(_asked(host.node, command), context=host.process.context)

    async def write(self) -> None:
        """A record to the topic, on all nodes that are up."""
        up = [host for host in self.hosts.values() if host.is_up]
        leader = next(
            host for host in up if self.node(host.node_id).image.topics["late"].partitions[0].leader == host.node_id
        )
        replicas = self.node(leader.node_id).replicas
        replicas.append(replicas.leader("late", 0), batch_of(), 1)
        await self.until(lambda: all(_end_offset(self.node(host.node_id)) == 1 for host in up))

    def cut(self, node_id: int, *, is_cut: bool) -> None:
        for other in IDS:
            for wire in ((node_id, other), (other, node_id)):
                self.wires.moods[host_name(wire[0]), host_name(wire[1])] = WireMood(is_cut=is_cut and other != node_id)

    def late(self, node_id: int) -> list[str]:
        return [name for name in self.hosts[node_id].disk.names("") if name.startswith("late")]


async def _asked(node: Node, command: Any) -> None:
    await node.cluster.metadata.ask_here(command)


def _end_offset(node: Node) -> int:
    return {replica.topic: replica.log.end_offset for replica in node.replicas.held()}.get("late", -1)


def among_three(test: Callable[[Three], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        loop = SimLoop()
        problems: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: problems.append(context))
        three = Three(loop)
        try:
            loop.run_until_complete(loop.create_task(test(three), context=SimProcess("the test").context))
        finally:
            for host in three.hosts.values():
                host.is_wanted = False
                host.kill()
            loop.close()
        assert problems == []

    wrapped.__name__ = test.__name__
    return wrapped


@among_three
async def test_what_its_metadata_does_not_know_yet_is_kept_until_it_has_caught_up(three: Three) -> None:
    """What its metadata does not know yet is kept until it has caught up and then too."""
    await three.start(*IDS)
    behind = three.hosts[3]
    behind.is_wanted = False
    behind.kill()
    await three.ask(CreateTopics((LATE,)))
    await three.write()
    source = three.hosts[1].disk
    for name in source.names("late-0"):  # as if only its metadata had been lost with the power
        behind.disk.replace(f"late-0/{name}", source.read_all(f"late-0/{name}"))

    three.cut(3, is_cut=True)
    behind.start()
    await pass_time(30)
    assert not behind.is_up
    assert three.node(3).image.topic("late") is None
    assert three.late(3) == ["late-0"]

    three.cut(3, is_cut=False)
    await three.start(3)
    await three.until(lambda: _end_offset(three.node(3)) == 1)
    assert three.late(3) == ["late-0"]


@among_three
async def test_what_was_deleted_while_it_was_down_goes_when_it_has_caught_up(three: Three) -> None:
    await three.start(*IDS)
    await three.ask(CreateTopics((LATE, OTHER)))
    await three.until(lambda: all(three.node(n).image.topic("late") is not None for n in IDS))
    await three.write()
    behind = three.hosts[3]
    behind.is_wanted = False
    behind.kill()
    await three.ask(DeleteTopics((TopicToDelete(name="late"),)))
    await three.until(lambda: three.late(1) == three.late(2) == [])

    three.cut(3, is_cut=True)
    behind.start()
    await pass_time(30)
    assert three.late(3) == ["late-0"]

    three.cut(3, is_cut=False)
    await three.start(3)
    await three.until(lambda: three.late(3) == [])
