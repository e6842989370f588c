"""Leader hints (KIP-951): a refusal that names a leader names one that there was, no older than the node itself knew.

A node that refuses because another leads says who, in which epoch and where. That must be what the metadata log had at
some time: a made-up leader sends clients astray, and an older one than the node's own image had sends them back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from chronik.core.types import TopicPartition
from chronik.sim.plans import PORT, host_name
from chronik.sim.story import WorldStory

NOTHING = -1  # no hint is given


class Placed(NamedTuple):
    """What a node's image had of a partition when it was asked."""

    topic_id: bytes
    leader_epoch: int


class LeaderHints:
    """It is given what images have, and what clients hear. Raises Violation."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._had: dict[TopicPartition, set[tuple[int, int]]] = {}  # leader and epoch, for ever
        self.checked = 0

    def had(self, name: TopicPartition, leader: int, leader_epoch: int) -> None:
        """Some image has it so."""
        self._had.setdefault(name, set()).add((leader, leader_epoch))

    def heard(self, who: str, name: TopicPartition, hint: Any, before: Placed | None, after: Placed | None) -> None:
        """An answer came with a hint, if it is one, from a node whose image had `before` when the request was sent and
        has `after` now. An image takes nothing back while its process lives, and no other answers on its connection."""
        leader, leader_epoch = int(hint.leader_id), int(hint.leader_epoch)
        if leader_epoch == NOTHING:
            if leader != NOTHING:
                raise self._story.break_promise(f"{who}: {name} is said to be led by node{leader}, in no epoch")
            return
        self.checked += 1
        if (leader, leader_epoch) not in self._had.get(name, ()):
            raise self._story.break_promise(
                f"{who}: {name} is said to be led by node{leader} in leader epoch {leader_epoch}, and never was"
            )
        is_same_topic = before is not None and after is not None and before.topic_id == after.topic_id
        if before is not None and is_same_topic and leader_epoch < before.leader_epoch:
            raise self._story.break_promise(
                f"{who}: {name} is said to be led by node{leader} in leader epoch {leader_epoch},"
                f" and the node that said it knew of {before.leader_epoch}"
            )

    def endpoints(self, who: str, endpoints: Iterable[Any]) -> None:
        """Where the leaders that were named are said to be."""
        for endpoint in endpoints:
            if (endpoint.host, endpoint.port) != (host_name(endpoint.node_id), PORT):
                raise self._story.break_promise(
                    f"{who}: node{endpoint.node_id} is said to be at {endpoint.host}:{endpoint.port}"
                )
