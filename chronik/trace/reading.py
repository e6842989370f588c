"""What a node says of itself at one moment, in plain values: the metrics are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

ByLabels: TypeAlias = Mapping[tuple[str, ...], float]


class Timed(NamedTuple):
    """How often something was done, and how long it took altogether."""

    times: int
    seconds: float


class PartitionReading(NamedTuple):
    """One partition that is served and has, or had, records."""

    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    next_offset: int
    size_bytes: int
    in_sync_replicas: int
    is_leader: int

    @property
    def gap_records(self) -> int:
        """Appended, and not below the watermark yet."""
        return self.next_offset - self.high_watermark


class FollowerReading(NamedTuple):
    """One follower of a partition that is led here and has, or had, records."""

    topic: str
    partition: int
    follower: int
    lag_records: int
    lag_seconds: float  # not a number: it never had everything since this node leads


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node's numbers."""

    builds: ByLabels  # by version
    nodes: ByLabels  # by node id and cluster id
    is_ready: bool
    requests: ByLabels  # by api
    refusals: ByLabels  # by api and code
    faults: int
    appended_batches: int
    appended_bytes: int
    duplicate_batches: int
    fetched_bytes: int
    throttled_bytes: ByLabels  # by role
    throttled_waits: ByLabels  # by role
    connections_open: int
    connections_max: int
    connections_accepted: int
    connections_malformed: int
    connections_of_nodes: int
    connections_refused: int
    connections_delayed: int
    quota_waits: ByLabels  # by quota
    quota_wait_seconds: ByLabels  # the same
    quota_clients: int
    connections_idle: int
    connections_given_up: int
    request_bytes: int
    request_bytes_max: int
    connections_waiting_for_memory: int
    commits: Timed
    waiting_producers: int
    waiting_fetches: int
    fetch_sessions: int
    groups: ByLabels  # by type and state
    producer_ids: int
    topics: int
    partitions: int
    partitions_leaderless: int
    partitions_led: int
    partitions_followed: int
    partitions_under_replicated: int
    partitions_lagging: int
    gap_records_max: int
    lag_records_max: int
    lag_seconds_max: float
    trace_events: int
    live_nodes: int
    is_controller: bool
    quorum_epoch: int
    metadata_offset: int
    disk_size_bytes: int
    disk_free_bytes: int
    served: Sequence[PartitionReading]
    followers: Sequence[FollowerReading]
    offline: Sequence[tuple[str, int]]

    @property
    def offline_count(self) -> int:
        return len(self.offline)
