"""What a node answers to a look: how things stand on it, and what it has traced.

A look is asked over the Kafka port with a request of our own (decision 0017). These are the answers, as JSON: fields
are added with a default, never renamed. Every node answers for itself alone; shell/looking.py asks them all.
"""

from __future__ import annotations

import msgspec

from chronik.trace.events import AnyEvent, GroupSeen, PartitionSeen

CLUSTER, STATE, EVENTS = "cluster", "state", "events"


class Traces(msgspec.Struct, frozen=True, gc=False):
    """What is traced: every topic but the exceptions, or none but those."""

    is_all: bool
    exceptions: tuple[str, ...]

    @property
    def is_on(self) -> bool:
        return self.is_all or bool(self.exceptions)


class NodeSeen(msgspec.Struct, frozen=True, gc=False):
    """A node of the cluster, as another (or it itself) knows it."""

    id: int
    host: str
    port: int
    is_alive: bool  # it takes part, as the controller says


class ClusterLook(msgspec.Struct, frozen=True, gc=False):
    """View `cluster`: who is there. The cheapest look there is."""

    node: int
    now_us: int
    version: str
    cluster_id: str
    is_ready: bool
    controller: int  # -1: nobody, or it is not known
    nodes: tuple[NodeSeen, ...]  # by id; a node that is still starting may know of fewer


class CopySeen(msgspec.Struct, frozen=True, gc=False):
    """One replica, led here or not. Offsets are -1 where the copy cannot be read (`offline` says why)."""

    topic: str
    partition: int
    is_leader: bool
    leader: int  # -1: nobody leads
    leader_epoch: int
    log_start: int
    watermark: int  # as this node knows it: a follower hears of it a moment later
    last_stable_offset: int
    next_offset: int
    safe_end: int  # everything below this has been synced here
    size_bytes: int
    offline: str | None = None


class Totals(msgspec.Struct, frozen=True, gc=False):
    """Of the partitions led here, our own topics included."""

    led: int
    followed: int
    offline: int
    under_replicated: int  # not all replicas are in sync
    lagging: int  # a follower has not all that the leader has
    gap_largest: int  # records that are appended and not below the watermark yet, of the partition that has most
    lag_records_largest: int  # of one follower
    lag_ms_largest: int


class StateLook(msgspec.Struct, frozen=True, gc=False):
    """View `state`: how things stand on one node, traced or not. `topics` limits everything but groups and totals."""

    node: int
    now_us: int
    version: str
    is_ready: bool
    traces: Traces
    partitions: tuple[PartitionSeen, ...]  # led here
    copies: tuple[CopySeen, ...]  # all that this node has, led here or not
    groups: tuple[GroupSeen, ...]  # coordinated here
    totals: Totals


class EventsLook(msgspec.Struct, frozen=True, gc=False):
    """View `events`: what one node has traced since `cursor` (0: all that it still has). Where `is_more`, ask again."""

    node: int
    now_us: int
    traces: Traces
    events: tuple[AnyEvent, ...]
    cursor: int  # where to go on
    lost: int  # let go before they could be read
    is_more: bool = False
