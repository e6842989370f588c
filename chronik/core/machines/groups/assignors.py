"""Server-side assignors of the KIP-848 protocol: `uniform` (the default) and `range`.

Both are plain functions of members and topics; members are given in order, so the same input gives the same output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from chronik.core.machines.groups.consumer_group import Partitions, TopicIdPartition


class Applicant(NamedTuple):
    """A member as an assignor sees it."""

    topics: frozenset[bytes]  # topic ids it subscribes to
    target: Partitions  # what it was to have so far
    instance_id: str | None = None


Assignment = dict[str, Partitions]
Assignor = Callable[[Mapping[str, Applicant], Mapping[bytes, int]], Assignment]


def assign_uniform(members: Mapping[str, Applicant], topics: Mapping[bytes, int]) -> Assignment:
    """Everyone gets as many partitions as the others, give or take one, and keeps as many of its own as that allows."""
    if not members:
        return {}
    subscriptions = [member.topics for member in members.values()]
    if all(subscription == subscriptions[0] for subscription in subscriptions):
        return _assign_alike(members, topics, subscriptions[0])
    return _assign_unlike(members, topics)


def _all_partitions(topics: Mapping[bytes, int], subscribed: frozenset[bytes]) -> list[TopicIdPartition]:
    return [
        (topic_id, number)
        for topic_id in sorted(topics)
        if topic_id in subscribed
        for number in range(topics[topic_id])
    ]


def _assign_alike(
    members: Mapping[str, Applicant], topics: Mapping[bytes, int], subscribed: frozenset[bytes]
) -> Assignment:
    """All want the same topics: fill quotas. `larger` members may have one more than the others."""
    everything = _all_partitions(topics, subscribed)
    exists = frozenset(everything)
    quota, larger = divmod(len(everything), len(members))
    held: dict[str, list[TopicIdPartition]] = {}
    taken: set[TopicIdPartition] = set()
    for member_id, member in members.items():
        mine = [pair for pair in sorted(member.target) if pair in exists and pair not in taken]
        if len(mine) > quota and larger > 0:
            larger -= 1
            mine = mine[: quota + 1]
        else:
            mine = mine[:quota]
        held[member_id] = mine
        taken.update(mine)
    spare = deque(pair for pair in everything if pair not in taken)
    # One at a time in turn, so that the partitions of a topic spread over the members.
    hungry = [mine for mine in held.values() if len(mine) < quota]
    while hungry:
        for mine in hungry:
            mine.append(spare.popleft())
        hungry = [mine for mine in hungry if len(mine) < quota]
    for mine in held.values():
        if spare and len(mine) == quota:
            mine.append(spare.popleft())
    return {member_id: frozenset(mine) for member_id, mine in held.items()}


def _assign_unlike(members: Mapping[str, Applicant], topics: Mapping[bytes, int]) -> Assignment:
    """Members want different topics: keep what can be kept, hand out the rest, then even out."""
    held: dict[str, dict[TopicIdPartition, None]] = {member_id: {} for member_id in members}
    wanted_by = {
        topic_id: [member_id for member_id, member in members.items() if topic_id in member.topics]
        for topic_id in sorted(topics)
    }
    owner: dict[TopicIdPartition, str] = {}
    for member_id, member in members.items():
        for pair in sorted(member.target):
            topic_id, number = pair
            if topic_id in member.topics and number < topics.get(topic_id, 0) and pair not in owner:
                owner[pair] = member_id
                held[member_id][pair] = None
    for topic_id, candidates in wanted_by.items():
        for number in range(topics[topic_id]):
            if candidates and (topic_id, number) not in owner:
                poorest = min(candidates, key=lambda member_id: len(held[member_id]))
                held[poorest][(topic_id, number)] = None
    while _even_out(members, held):
        pass
    return {member_id: frozenset(mine) for member_id, mine in held.items()}


def _even_out(members: Mapping[str, Applicant], held: dict[str, dict[TopicIdPartition, None]]) -> bool:
    """Move one partition from a rich member towards one that has two less, through others if need be."""
    for rich in sorted(held, key=lambda member_id: -len(held[member_id])):
        came_from: dict[str, tuple[str, TopicIdPartition]] = {}
        queue = deque([rich])
        while queue:
            giver = queue.popleft()
            by_topic = {pair[0]: pair for pair in held[giver]}
            for taker, member in members.items():
                if taker == rich or taker in came_from:
                    continue
                pair = next((by_topic[topic_id] for topic_id in by_topic if topic_id in member.topics), None)
                if pair is None:
                    continue
                came_from[taker] = (giver, pair)
                queue.append(taker)
                if len(held[taker]) <= len(held[rich]) - 2:
                    _pass_along(taker, rich, came_from, held)
                    return True
    return False


def _pass_along(
    taker: str,
    rich: str,
    came_from: dict[str, tuple[str, TopicIdPartition]],
    held: dict[str, dict[TopicIdPartition, None]],
) -> None:
    while taker != rich:
        giver, pair = came_from[taker]
        del held[giver][pair]
        held[taker][pair] = None
        taker = giver


def assign_range(members: Mapping[str, Applicant], topics: Mapping[bytes, int]) -> Assignment:
    """Each topic is cut into ranges, one a member: equal partition numbers of several topics go to the same member."""
    held: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    # Static members first and by name, so that a member which comes back under a new id finds its old place.
    order = sorted(members, key=lambda id: (members[id].instance_id is None, members[id].instance_id or id))
    for topic_id in sorted(topics):
        takers = [member_id for member_id in order if topic_id in members[member_id].topics]
        if not takers:
            continue
        quota, larger = divmod(topics[topic_id], len(takers))
        start = 0
        for place, member_id in enumerate(takers):
            end = start + quota + (1 if place < larger else 0)
            held[member_id] += [(topic_id, number) for number in range(start, end)]
            start = end
    return {member_id: frozenset(mine) for member_id, mine in held.items()}


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
