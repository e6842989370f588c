"""What the administrator of a simulated world asked for, and what may be so in the end because of it.

While an answer is lost, or a copy of a request is still on its way, one of several things may come true. When the
administrator knows that nothing of the kind is left it says so, and only what was asked last may be.
"""

from __future__ import annotations

from typing import NamedTuple

from chronik.core.types import TopicPartition
from chronik.sim.story import WorldStory

Replicas = tuple[int, ...]


class OrderedSetting(NamedTuple):
    """A setting of a topic, of one broker, or (a broker without a name) of all brokers."""

    resource_type: int
    resource_name: str
    key: str


class Orders:
    """It is given each order when it is sent, and when it is known to hold."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._targets: dict[TopicPartition, set[Replicas]] = {}
        self._settled: dict[TopicPartition, Replicas] = {}
        self.counts: dict[str, int] = {}  # partitions that a topic has at least
        self.settings: dict[OrderedSetting, set[str | None]] = {}  # None: nothing was altered

    # --- replicas

    def moves(self, name: TopicPartition, target: Replicas) -> None:
        self._targets.setdefault(name, set()).add(target)
        self._settled.pop(name, None)

    def cancels(self, name: TopicPartition) -> None:
        self._targets.setdefault(name, set())
        self._settled.pop(name, None)

    def settled(self, name: TopicPartition, target: Replicas) -> None:
        """This was asked last, it was said to be done, and nothing else is under way."""
        self._settled[name] = target

    def moved(self) -> list[TopicPartition]:
        """Partitions whose replicas were ever ordered to be others."""
        return sorted(self._targets)

    def problem_with(self, name: TopicPartition, replicas: Replicas, *, is_moving: bool) -> str | None:
        """What is not as ordered, long after the last order."""
        if name not in self._targets:
            return None
        if is_moving:
            return f"{name} is still being moved"
        wanted = self._settled.get(name)
        if wanted is not None and wanted != replicas:
            return f"{name} has the replicas {replicas}, and was moved to {wanted}"
        return None

    # --- partitions

    def counted(self, topic: str, count: int) -> None:
        self.counts[topic] = max(self.counts.get(topic, 0), count)

    # --- settings

    def sets(self, setting: OrderedSetting, value: str | None, before: str | None = None) -> None:
        self.settings.setdefault(setting, {before}).add(value)

    def holds(self, setting: OrderedSetting, value: str | None) -> None:
        """This was asked last, it was said to be done, and nothing else is under way."""
        self.settings[setting] = {value}
