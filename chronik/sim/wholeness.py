"""After the bad days: within bounded time all nodes are up, in sync and agree again, without help."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.types import TopicPartition
from chronik.sim.cleaned import content_of
from chronik.sim.quorum_checks import differences, metadata_state

if TYPE_CHECKING:
    from chronik.sim.world import World

LOOK_AGAIN_S = 0.25


async def wait_until_whole(world: World, within_s: float) -> None:
    """Raises Violation when it takes too long."""
    until = world.loop.time() + within_s
    while (problem := missing(world)) is not None:
        if world.loop.time() >= until:
            raise world.story.break_promise(f"not whole again {within_s:g} s after the last fault: {problem}")
        await asyncio.sleep(LOOK_AGAIN_S)
    world.story.tell("world", "is whole again")


def check_lossy_copies(world: World) -> None:
    """When all is quiet: after unclean elections too, every copy is the same. Raises Violation."""
    contents: dict[tuple[str, int], tuple[str, object]] = {}
    for host in world.hosts:
        replicas = [] if host.node is None else list(host.node.replicas.held())
        for replica in replicas:
            name = TopicPartition(replica.topic, replica.partition)
            if name.topic not in world.inspector.lossy_topics or world.judge.damage.get(name):
                continue
            found = replica.log.start_offset, replica.log.end_offset, content_of(replica)
            first_host, first = contents.setdefault(name, (host.name, found))
            if found != first:
                raise world.story.break_promise(f"{name} is not the same on {first_host} and {host.name}")


def missing(world: World) -> str | None:
    """What keeps the world from being whole; None when nothing does."""
    images: dict[int, MetadataImage] = {}
    for host in world.hosts:
        if not host.is_up or host.node is None:
            return f"{host.name} is not up"
        images[host.node_id] = host.node.image
    first, *others = images.items()
    for node_id, image in others:
        apart = differences(metadata_state(first[1]), metadata_state(image))
        if apart:
            return f"node{first[0]} and node{node_id} know different things: {'; '.join(apart)}"
    image = first[1]
    for node_id in images:
        if not image.is_active(node_id):
            return f"node{node_id} is fenced"
    for topic_name, count in world.orders.counts.items():
        if len(image.topics[topic_name].partitions) < count:
            return f"{topic_name} has fewer than {count} partitions"
    for topic in image.topics.values():
        for number in range(len(topic.partitions)):
            problem = _missing_of(world, image, TopicPartition(topic.name, number))
            if problem is not None:
                return problem
    return None


def _missing_of(world: World, image: MetadataImage, name: TopicPartition) -> str | None:
    topic = image.topics[name.topic]
    placed = topic.partitions[name.partition]
    damaged = world.judge.damage.get(name, set())
    if world.judge.may_refuse(name):
        return None
    if placed.leader < 0:
        return f"no node leads {name}"
    problem = world.orders.problem_with(name, placed.replicas, is_moving=placed.is_moving)
    if problem is not None:
        return problem
    absent = [node_id for node_id in placed.replicas if node_id not in placed.in_sync and node_id not in damaged]
    if absent:
        return f"{name} is not in sync on {absent}"
    sights = world.inspector.copies.of((topic.id, name.partition))
    ends = {
        node_id: (sight.end_offset, sight.watermark)
        for node_id, sight in sorted(sights.items())
        if node_id not in damaged
    }
    gone = world.judge.starts.gone(name, placed.leader_epoch)
    starts = {node_id: sight.start_offset for node_id, sight in sorted(sights.items()) if node_id not in damaged}
    if min(starts.values(), default=gone) < gone:
        return f"{name} was deleted up to {gone}, and begins at {starts}"
    if len({*ends.values()}) > 1:
        return f"{name} ends, and is safe, at {ends}"
    return None
