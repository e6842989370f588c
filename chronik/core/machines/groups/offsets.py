"""Committed offsets: what each group has read of each partition.

How long an offset was not needed is measured over restarts and by whichever node leads, so the times kept here are
those of wall clocks, and wall clocks are set. One that was slow when its node started must not let that node stamp in
the past for the rest of its life; one that is set forward must not make everything look old. So a machine is given two
times: the steady one, which begins with the wall clock and never jumps, and what the wall clock shows now. The later of
them stamps, the earlier measures. Where they differ, an offset is kept longer than it had to be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

NO_EXPIRY = -1
NO_TOPIC_ID = bytes(16)  # of offsets that an earlier version kept, or with an expiry of their own


def stamp_ms(now_ms: int, wall_ms: int | None) -> int:
    """The time to keep on disk. Without a wall clock the steady time is as good."""
    return now_ms if wall_ms is None else max(now_ms, wall_ms)


def measuring_ms(now_ms: int, wall_ms: int | None) -> int:
    """The time to compare with what was kept."""
    return now_ms if wall_ms is None else min(now_ms, wall_ms)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group will go on reading a partition, with what it noted beside."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY  # set by clients of OffsetCommit v2-v4 only
    topic_id: bytes = NO_TOPIC_ID  # or another topic of that name would begin where this one's readers were

    def is_expired(self, now_ms: int, since_ms: int, retention_ms: int) -> bool:
        """Was it not needed for too long? `since_ms` is when its group last did."""
        if self.expire_ms != NO_EXPIRY:
            return now_ms >= self.expire_ms
        return now_ms - since_ms >= retention_ms


class CommittedOffsets:
    """All committed offsets of a machine, by group, topic and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._by_group.get(group_id, {})

    def topics(self) -> set[tuple[str, bytes]]:
        """Every topic that any group has committed an offset for, with its id."""
        return {
            (topic, committed.topic_id)
            for by_topic in self._by_group.values()
            for topic, of_topic in by_topic.items()
            for committed in of_topic.values()
        }

    def of_topics(self, topics: Collection[tuple[str, bytes]]) -> Iterator[tuple[str, str, int]]:
        """Group, topic and partition of every offset committed for these topics."""
        names = {name for name, _ in topics}
        for group_id, by_topic in self._by_group.items():
            for topic in (topic for topic in by_topic if topic in names):
                for partition, committed in by_topic[topic].items():
                    if (topic, committed.topic_id) in topics:
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
