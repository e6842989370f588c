"""What a node answers to a look: how things stand on it, and what it has traced.

A look is asked over the Kafka port with a request of our own (decision 0017). These are the answers, as JSON: fields
are added with a default, never renamed. Every node answers for itself alone; client/inspect_request.py asks them all.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from chronik.trace.events import STORED_NAMES, AnyEvent, GroupSeen, PartitionSeen, TransactionSeen

CLUSTER, STATE, EVENTS, TOPICS = "cluster", "state", "events", "topics"


class Traces(msgspec.Struct, frozen=True, gc=False):
    """What is traced: every topic but the exceptions, or none but those. And how many events there are of it."""

    is_all: bool
    exceptions: tuple[str, ...]  # sorted
    added: int = 0  # events, since the node started
    kept: int = 0  # of those, what can still be looked at
    is_stored: bool = False  # they also go to the trace topic

    @property
    def is_on(self) -> bool:
        return self.is_all or bool(self.exceptions)


class NodeSeen(msgspec.Struct, frozen=True, gc=False):
    """A node of the cluster, as another (or it itself) knows it."""

    id: int
    host: str
    port: int
    is_alive: bool  # it takes part, as the controller says


class ClusterStateView(msgspec.Struct, frozen=True, gc=False):
    """View `cluster`: who is there. The cheapest look there is."""

    node: int
    now_us: int
    version: str
    cluster_id: str
    is_ready: bool
    controller: int  # -1: none, or it is not known
    nodes: tuple[NodeSeen, ...]  # by id; a node that is still starting may know of fewer
    traces: Traces


class CopySeen(msgspec.Struct, frozen=True, gc=False, rename=STORED_NAMES):
    """One replica, led here or not. Offsets are -1 where the copy cannot be read (`offline` says why)."""

    topic: str
    partition: int
    is_leader: bool
    leader: int  # -1: no node leads
    leader_epoch: int
    log_start: int
    watermark: int  # as this node knows it: a follower hears of it a moment later
    last_stable_offset: int
    next_offset: int
    durable_end_offset: int  # everything below this has been synced here
    size_bytes: int
    offline: str | None = None


class UnopenedSeen(msgspec.Struct, frozen=True, gc=False):
    """A partition led here that no client has asked for yet, or one that no node leads: its offsets are not known
    here."""

    topic: str
    partition: int
    leader: int  # -1: no node leads
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Totals(msgspec.Struct, frozen=True, gc=False):
    """Of all that this node has, our own topics included; but for the first line, of what it leads."""

    led: int
    followed: int
    offline: int
    under_replicated: int  # partitions of which not all replicas are in sync
    lagging: int  # partitions of which a follower has not had everything for two seconds or more
    gap_largest: int  # records that are appended and not below the watermark yet, of the partition that has most
    lag_records_largest: int  # of one follower
    lag_ms_largest: int


class StateView(msgspec.Struct, frozen=True, gc=False):
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
    unopened: tuple[UnopenedSeen, ...] = ()  # neither among `partitions` nor among `copies`
    is_current: bool = False  # it was asked to make sure of the cluster's metadata, and a majority of voters was there
    transactions: tuple[TransactionSeen, ...] = ()  # coordinated here, and not over within a second


class TopicsView(msgspec.Struct, frozen=True, gc=False):
    """View `topics`: which topics there are. Where `is_current`, this has all that was committed when it was asked:
    what it does not name was not there."""

    node: int
    now_us: int
    is_current: bool
    partitions: dict[str, int]  # how many each has


class EventsView(msgspec.Struct, frozen=True, gc=False):
    """View `events`: what one node has traced since `cursor` (0: all that it still has). Where `is_more`, ask again."""

    node: int
    now_us: int
    traces: Traces
    events: tuple[AnyEvent, ...]
    cursor: int  # where to go on
    lost: int  # let go before they could be read
    is_more: bool = False
    began_us: int = 0  # when this node's process did: another than before means that what was under way is gone


# --- one record, for `chronik where`

RECORD, FIND = "record", "find"


class RecordPlace(StrEnum):
    """Where a record is on one node, or why it is not there."""

    HERE = "here"
    DELETED = "deleted"  # before the log start: retention, or DeleteRecords
    COMPACTED = "compacted"  # a later record of the same key replaced it
    NO_RECORD = "no record"  # another Kafka passes over this offset, and does not tell why
    BEYOND_END = "beyond the end"  # no record has had this offset here yet
    ABOVE_WATERMARK = "above the watermark"  # another Kafka does not tell whether there is anything
    NO_COPY = "no copy"  # this node does not have the partition
    NO_SUCH_PARTITION = "no such partition"
    UNREADABLE = "unreadable"  # the copy is offline or damaged
    NOT_KNOWN = "not known"  # no node says so of itself: the one that could tell does not answer


class BatchSeen(msgspec.Struct, frozen=True, gc=False):
    """A record's batch, by its header alone: what the producer said and where the log has put it."""

    base_offset: int
    to_offset: int
    leader_epoch: int  # of the leader that took it
    producer_id: int  # -1: not idempotent
    producer_epoch: int
    base_sequence: int
    first_timestamp: int
    max_timestamp: int
    record_count: int  # fewer than there are offsets, when compaction took some
    size_bytes: int
    codec: str
    is_transactional: bool
    is_control: bool
    segment: str  # the file
    position: int  # in that file

    @property
    def is_thinned(self) -> bool:
        """Whether compaction took some of its records."""
        return self.record_count < self.to_offset - self.base_offset


class TransactionFate(StrEnum):
    """What became of a record's transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    NOT_KNOWN = "not known"


class TransactionView(msgspec.Struct, frozen=True, gc=False):
    """A record's transaction, as one node's copy of the partition has it."""

    fate: TransactionFate
    producer_id: int
    producer_epoch: int
    first_offset: int = -1  # of its first record in this partition; -1: not known
    marker_offset: int = -1
    coordinator_epoch: int = -1  # of a marker
    is_marker: bool = False  # the record is the marker itself
    reason: str | None = None  # why something of it is not known


class RecordView(msgspec.Struct, frozen=True, gc=False, rename=STORED_NAMES):
    """View `record`: what one node's copy has at an offset. Offsets are -1 where there is no copy to ask."""

    node: int
    now_us: int
    topic: str
    partition: int
    offset: int
    place: RecordPlace
    reason: str | None = None  # more about the place, if there is more
    is_leader: bool = False
    leader: int = -1
    leader_epoch: int = -1
    log_start: int = -1
    watermark: int = -1
    last_stable_offset: int = -1
    next_offset: int = -1
    durable_end_offset: int = -1
    in_sync: tuple[int, ...] = ()  # as the cluster's metadata has it on this node
    replicas: tuple[int, ...] = ()
    batch: BatchSeen | None = None  # where it is here
    transaction: TransactionView | None = None  # if it is in one

    @property
    def is_synced(self) -> bool:
        return self.place is RecordPlace.HERE and self.offset < self.durable_end_offset


class FoundRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that a producer gave a certain sequence number."""

    offset: int
    producer_epoch: int


class FindView(msgspec.Struct, frozen=True, gc=False):
    """View `find`: where a producer's sequence number is, of the part of the log that was looked at."""

    node: int
    now_us: int
    topic: str
    partition: int
    place: RecordPlace  # HERE, or why there was nothing to look at
    found: tuple[FoundRecord, ...] = ()
    go_on_from: int = -1  # there is more of the log to look at from here on; -1: that was all
