"""A node's partitions summed up: how many lag, and by how much at worst."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.replica.in_sync import UNKNOWN
from chronik.node.observe.partition_states import follower_seen
from chronik.trace.events import FollowerSeen
from chronik.trace.inspections import Totals

if TYPE_CHECKING:
    from chronik.core.machines.metadata.partition import Partition
    from chronik.core.replica.replica import Replica
    from chronik.node.node import Node

# Under load a follower is always a fetch behind: that is no lag. And an idle partition is looked at once a second
# (node/replication/in_sync_upkeep.py), so for a moment a follower may seem to be late by that much.
LAGGING_MS = 2_000


def behind(replica: Replica, monotonic_ms: int) -> list[FollowerSeen]:
    """The followers that do not have everything; none where another node leads."""
    in_sync, log = replica.in_sync, replica.log
    if in_sync is None:
        return []
    start_offset, end_offset = log.start_offset, log.end_offset
    return [
        follower_seen(node_id, progress, node_id in in_sync.in_sync, start_offset, end_offset, monotonic_ms)
        for node_id, progress in in_sync.followers.items()
        if progress.durable_end_offset < end_offset
    ]


def is_lagging(follower: FollowerSeen) -> bool:
    """It has not had everything for a while, or never yet."""
    return follower.lag_records > 0 and (follower.lag_ms >= LAGGING_MS or follower.lag_ms == UNKNOWN)


def _unopened(node: Node) -> Iterator[Partition]:
    known = {(replica.topic, replica.partition) for replica in node.replicas.held()} | set(
        node.replicas.partitions.offline()
    )
    own_id = node.config.node_id
    for topic in node.image.topics.values():
        for number, placed in enumerate(topic.partitions):
            if placed.leader == own_id and (topic.name, number) not in known:
                yield placed


def totals(node: Node, monotonic_ms: int) -> Totals:
    led = followed = under_replicated = lagging = gap_largest = lag_records_largest = lag_ms_largest = 0
    for replica in node.replicas.held():
        in_sync = replica.in_sync
        if replica.offline is not None or replica.topic == METADATA_TOPIC:  # which is the quorum's affair
            continue
        if in_sync is None:
            followed += 1
            continue
        led += 1
        under_replicated += len(in_sync.in_sync) < in_sync.replica_count
        gap_largest = max(gap_largest, replica.log.end_offset - replica.high_watermark)
        late = behind(replica, monotonic_ms)
        lagging += any(map(is_lagging, late))
        for each in late:
            lag_records_largest = max(lag_records_largest, each.lag_records)
            lag_ms_largest = max(lag_ms_largest, each.lag_ms)
    for placed in _unopened(node):  # no client has asked for it since this node started: its log is as it was
        led += 1
        under_replicated += len(placed.in_sync) < len(placed.replicas)
    return Totals(
        led,
        followed,
        len(node.replicas.partitions.offline()),
        under_replicated,
        lagging,
        gap_largest,
        lag_records_largest,
        lag_ms_largest,
    )
