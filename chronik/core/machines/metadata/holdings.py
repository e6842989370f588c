"""What each broker holds: which topics to look through when it goes or comes back.

Kept per topic, not per partition: a broker that fails has to be taken out of every partition it holds, and looking
through the partitions of its topics costs a millisecond for ten thousand, while an entry for every replica would
be larger than the image itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from chronik.core.machines.metadata.partition import Partition

K = TypeVar("K", int, bytes)
Count = dict[bytes, int]  # partitions by topic id


class Holdings:
    """Counts by topic of the partitions that have something in common. Follows the image, one partition at a time."""

    def __init__(self) -> None:
        self._replicas: dict[int, Count] = {}
        self._led: dict[int, int] = {}
        self._leaderless: Count = {}
        self._led_by_another: Count = {}
        self._moving: Count = {}

    def add(self, topic_id: bytes, partition: Partition) -> None:
        self._shift(topic_id, partition, 1)

    def remove(self, topic_id: bytes, partition: Partition) -> None:
        self._shift(topic_id, partition, -1)

    def change(self, topic_id: bytes, old: Partition, new: Partition) -> None:
        self.remove(topic_id, old)
        self.add(topic_id, new)

    def _shift(self, topic_id: bytes, partition: Partition, by: int) -> None:
        for broker_id in partition.replicas:
            topics = self._replicas.setdefault(broker_id, {})
            _count(topics, topic_id, by)
            if not topics:
                del self._replicas[broker_id]
        if not partition.has_leader:
            _count(self._leaderless, topic_id, by)
        else:
            _count(self._led, partition.leader, by)
            if not partition.has_preferred_leader:
                _count(self._led_by_another, topic_id, by)
        if partition.is_moving:
            _count(self._moving, topic_id, by)

    def copy(self) -> Holdings:
        other = Holdings()
        other._replicas = {broker_id: dict(topics) for broker_id, topics in self._replicas.items()}
        other._led, other._leaderless = dict(self._led), dict(self._leaderless)
        other._led_by_another, other._moving = dict(self._led_by_another), dict(self._moving)
        return other

    def topics_of(self, broker_id: int) -> Iterator[bytes]:
        """Topics that have a replica on this broker, in order of their ids."""
        return iter(sorted(self._replicas.get(broker_id, ())))

    def leads(self, broker_id: int) -> bool:
        return broker_id in self._led

    def leaderless_topics(self) -> Iterator[bytes]:
        """Topics with a partition that no node leads."""
        return iter(sorted(self._leaderless))

    def unbalanced_topics(self) -> Iterator[bytes]:
        """Topics with a partition that is led by another than the first of its replicas."""
        return iter(sorted(self._led_by_another))

    def moving_topics(self) -> Iterator[bytes]:
        """Topics with a reassignment under way."""
        return iter(sorted(self._moving))

    @property
    def is_balanced(self) -> bool:
        return not self._led_by_another

    def content(self) -> tuple[object, ...]:
        """All of it, to compare it with another."""
        return (self._replicas, self._led, self._leaderless, self._led_by_another, self._moving)


def _count(counts: dict[K, int], key: K, by: int) -> None:
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        del counts[key]
