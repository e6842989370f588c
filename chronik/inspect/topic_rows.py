"""A topic's partitions as rows: offsets of leaders that are sure to lead, counts of messages, what is in trouble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronik.client.admin import Partition, PartitionState, TopicState
from chronik.client.words import counted
from chronik.inspect.watermarks import Monitor, offsets_row


def messages(starts: Mapping[Partition, int | None], ends: Mapping[Partition, int | None]) -> str:
    """How many there are, as far as leaders tell."""
    spans = [(number, starts[topic, number], end) for (topic, number), end in ends.items()]
    counts = {number: _count(start, end) for number, start, end in spans}
    known = sum(count for count in counts.values() if count is not None)
    not_known = [str(number) for number, count in counts.items() if count is None]
    words = f"about {counted(known, 'message')}"
    return (
        f"{words} and those of partition {', '.join(not_known)}, which no leader tells of now" if not_known else words
    )


def partition_row(state: PartitionState, start: int | None, end: int | None, watched: Monitor | None) -> dict[str, Any]:
    """The leader that Metadata names may lead no more: what it said counts where no node knows better."""
    seen = None if watched is None else watched.partitions.get(state.partition)
    if watched is not None and seen is None and (watched.silent or end != 0):  # else nothing was written there yet
        start = end = None
    if seen is not None and end is not None and end < seen.watermark:
        start = end = None
    offsets = {} if watched is None else offsets_row(seen)
    return offsets | {
        "partition": state.partition,
        "leader": state.leader,
        "replicas": state.replicas,
        "in_sync": state.in_sync,
        "start_offset": start,
        "end_offset": end,
        "messages": _count(start, end),
    }


def _count(start: int | None, end: int | None) -> int | None:
    """None where it is not known: an end before the start is what another node said, which knows less."""
    return None if start is None or end is None or end < start else end - start


def trouble(topic: TopicState) -> str | None:
    """What is wrong with its partitions, if anything is."""
    leaderless = sum(partition.leader is None for partition in topic.partitions)
    behind = sum(len(partition.in_sync) < len(partition.replicas) for partition in topic.partitions)
    parts = [f"{leaderless} without leader"] if leaderless else []
    parts += [f"{behind} with replicas behind"] if behind else []
    return "; ".join(parts) or None
