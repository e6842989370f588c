"""Committed offsets: what each group has read of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

NO_EXPIRY = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group will go on reading a partition, with what it noted beside."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY  # set by clients of OffsetCommit v2-v4 only

    def is_expired(self, now_ms: int, since_ms: int, retention_ms: int) -> bool:
        """Has nobody needed it for too long? `since_ms` is when its group last did."""
        if self.expire_ms != NO_EXPIRY:
            return now_ms >= self.expire_ms
        return now_ms - since_ms >= retention_ms


class Offsets:
    """All committed offsets of a machine, by group, topic and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._by_group.get(group_id, {})

    def topics(self) -> list[str]:
        """Every topic that any group has committed an offset for."""
        return list(dict.fromkeys(topic for by_topic in self._by_group.values() for topic in by_topic))

    def of_topics(self, topics: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
        """Group, topic and partition of every offset committed for these topics."""
        for group_id, by_topic in self._by_group.items():
            for topic in topics:
                for partition in by_topic.get(topic, {}):
                    yield group_id, topic, partition

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        self._by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        by_topic = self._by_group.get(group_id)
        if by_topic is None or topic not in by_topic:
            return
        by_topic[topic].pop(partition, None)
        if not by_topic[topic]:
            del by_topic[topic]
        if not by_topic:
            del self._by_group[group_id]
