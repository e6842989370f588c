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


class RequestReading(NamedTuple):
    """Requests, and what became of them."""

    begun: ByLabels  # by api
    refusals: ByLabels  # by api and code
    faults: int


class TrafficReading(NamedTuple):
    """What went in and out."""

    appended_batches: int
    appended_bytes: int
    duplicate_batches: int
    fetched_bytes: int
    throttled_bytes: ByLabels  # by role
    throttled_waits: ByLabels  # by role


class ConnectionReading(NamedTuple):
    """Connections, and the memory that their requests take."""

    open: int
    max: int
    accepted: int
    malformed: int
    of_nodes: int
    refused: int
    delayed: int
    idle: int
    given_up: int
    waiting_for_memory: int
    request_bytes: int
    request_bytes_max: int


class QuotaReading(NamedTuple):
    """Clients over their quotas."""

    waits: ByLabels  # by quota
    wait_seconds: ByLabels  # the same
    clients: int


class WaitingReading(NamedTuple):
    """Requests in purgatory."""

    producers: int
    fetches: int


class PartitionTotals(NamedTuple):
    """The cluster's partitions, counted from where this node stands, and the furthest behind of those led here."""

    topics: int
    total: int
    leaderless: int
    led: int
    followed: int
    under_replicated: int
    lagging: int
    gap_records_max: int
    lag_records_max: int
    lag_seconds_max: float


class ClusterReading(NamedTuple):
    """What this node knows of the cluster."""

    live_nodes: int
    is_controller: bool
    quorum_epoch: int
    metadata_offset: int


class DiskReading(NamedTuple):
    """The volume of the data directory."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node's numbers."""

    builds: ByLabels  # by version
    nodes: ByLabels  # by node id and cluster id
    is_ready: bool
    requests: RequestReading
    traffic: TrafficReading
    connections: ConnectionReading
    quotas: QuotaReading
    certificate_days: ByLabels  # until it expires, by store
    commits: Timed
    waiting: WaitingReading
    fetch_sessions: int
    groups: ByLabels  # by type and state
    producer_ids: int
    partitions: PartitionTotals
    trace_events: int
    cluster: ClusterReading
    disk: DiskReading
    served: Sequence[PartitionReading]
    followers: Sequence[FollowerReading]
    offline: Sequence[tuple[str, int]]

    @property
    def offline_count(self) -> int:
        return len(self.offline)
