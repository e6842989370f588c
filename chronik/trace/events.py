"""What happened, step by step: one event a step and partition of a request, never one a record.

The JSON of these is what the trace topic holds and the pipeline reads (docs/trace.md), so a field is never renamed and
never changes its meaning: new ones are added with a default, and the version of the schema says that there are more.
How they are written down, many batches in a line, is in lines.py.

Offsets are half-open ranges: `to_offset` is the first one that is not meant. Times are microseconds: `at_us` since 1970
by the clock of the node that tells; `took_us` is measured. -1 stands for 'none' where Kafka has it so.

msgspec takes a twentieth of a second to load: a node that traces nothing starts without this module (see recorder.py).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# What is called differently in the JSON: it was stored under this name first, and a stored name stays.
STORED_NAMES = {"durable_end_offset": "safe_end"}


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=False, tag_field="kind", tag=True):
    """When, and on which node."""

    at_us: int
    node: int


# --- producing


class ProduceAppended(Event, frozen=True, gc=False, tag="produce_appended"):
    """A batch is in the leader's log, or was already (`is_duplicate`: the retry of an idempotent producer)."""

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    acks: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    to_offset: int
    size_bytes: int
    is_duplicate: bool
    leader_epoch: int
    watermark: int
    principal: str = ""  # of the client; "" in events of versions before 5


class ProduceAnswered(Event, frozen=True, gc=False, tag="produce_answered"):
    """The batch is as safe as `acks` asks. Whether the watermark moved meanwhile is to be seen."""

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    acks: int
    base_offset: int
    to_offset: int
    watermark_before: int
    watermark: int
    in_sync: tuple[int, ...]
    took_us: int


class Replicated(Event, frozen=True, gc=False, tag="replicated"):
    """The leader heard that a follower has everything below `to_offset` safely."""

    topic: str
    partition: int
    follower: int
    from_offset: int
    to_offset: int


class WatermarkMoved(Event, frozen=True, gc=False, tag="watermark_moved"):
    """On this node, which leads the partition or follows. One that moves all the time is recorded every 10 ms."""

    topic: str
    partition: int
    before: int
    watermark: int
    next_offset: int
    is_leader: bool


# --- consuming


class FetchWaits(Event, frozen=True, gc=False, tag="fetch_waits"):
    """A consumer asked, there is nothing to give (or too little), and the fetch waits.

    Reported for one fetch a second and connection, and again each second of a fetch that waits for longer than that.
    """

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    group: str | None
    offset: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    is_committed_only: bool
    watermark: int
    last_stable_offset: int
    next_offset: int
    waited_us: int = 0  # until now


class FetchAnswered(Event, frozen=True, gc=False, tag="fetch_answered"):
    """A consumer asked from `offset` on and was given [offset, to_offset): nothing, when the two are the same.

    Reported for each partition that was given something, or nothing although there was something. Otherwise, of one
    fetch a second and connection, and of every one that was said to wait.
    """

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    group: str | None
    offset: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    is_committed_only: bool
    watermark: int
    last_stable_offset: int
    next_offset: int
    to_offset: int
    size_bytes: int
    has_waited: bool
    took_us: int
    principal: str = ""  # of the client; "" in events of versions before 5


class FetchDropped(Event, frozen=True, gc=False, tag="fetch_dropped"):
    """Nothing waits for the answer to this fetch any more: the client hung up."""

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    group: str | None
    offset: int
    max_wait_ms: int
    waited_us: int


# --- refusals, and what Metadata responses said


class RefusedEvent(Event, frozen=True, gc=False, tag="refused"):
    """A request, or one partition of it, got an error code."""

    api: str
    client_id: str
    host: str
    connection: int
    code: int
    error: str
    reason: str | None
    topic: str | None = None
    partition: int = -1
    leader: int = -1  # which node leads, as this node knows
    leader_epoch: int = -1
    principal: str = ""  # of the client; "" in events of versions before 5


class MetadataTold(Event, frozen=True, gc=False, tag="metadata_told"):
    """What a Metadata response said of a topic: the brokers, and which node leads each partition."""

    topic: str
    client_id: str
    host: str
    connection: int
    brokers: tuple[int, ...]
    controller: int
    leaders: tuple[int, ...]  # by partition; -1 where there is none


# --- leaders and in-sync sets


class LeaderChanged(Event, frozen=True, gc=False, tag="leader_changed"):
    """As a node that has the partition learnt it."""

    topic: str
    partition: int
    leader_before: int
    leader_epoch_before: int
    leader: int
    leader_epoch: int


class InSyncChanged(Event, frozen=True, gc=False, tag="in_sync_changed"):
    """Reported by the leader; `before` is empty when it has only just become that."""

    topic: str
    partition: int
    before: tuple[int, ...]
    in_sync: tuple[int, ...]
    partition_epoch: int


# --- groups, reported by their coordinator


class GroupJoined(Event, frozen=True, gc=False, tag="group_joined"):
    """A member asked to be in, for the first time or again."""

    group: str
    member_id: str
    client_id: str
    host: str


class GroupLeft(Event, frozen=True, gc=False, tag="group_left"):
    """A member said good-bye (`left`), was not heard of for its session's length or did not come back for a rebalance
    (`expired`), or a static one came back under another id (`replaced`)."""

    group: str
    member_id: str
    client_id: str
    host: str
    reason: str


class GroupChanged(Event, frozen=True, gc=False, tag="group_changed"):
    """A group has another state or generation (a consumer group of KIP-848: epoch)."""

    group: str
    state_before: str
    state: str
    generation: int
    members: int


class Committed(Event, frozen=True, gc=False, tag="committed"):
    """A group has worked off everything below `offset`. One that a transaction brought has its producer, and no client:
    it counts since the marker."""

    topic: str
    partition: int
    group: str
    client_id: str
    host: str
    offset: int
    producer_id: int = -1


class OffsetPending(Event, frozen=True, gc=False, tag="offset_pending"):
    """A transaction has brought an offset: the group has it when the transaction commits."""

    topic: str
    partition: int
    group: str
    producer_id: int
    offset: int


class OffsetDropped(Event, frozen=True, gc=False, tag="offset_dropped"):
    """An offset that a transaction brought never counts: the transaction was aborted (`aborted`), or a later offset of
    the group counted already when it committed (`overtaken`)."""

    topic: str
    partition: int
    group: str
    producer_id: int
    offset: int
    reason: str


# --- transactions, reported by their coordinator; markers by the leader that wrote them


class TransactionBegun(Event, frozen=True, gc=False, tag="transaction_begun"):
    """The first partition was added to it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int


class TransactionPartitionAdded(Event, frozen=True, gc=False, tag="transaction_partition_added"):
    """A partition is part of it from now on; of `__consumer_offsets`, for the offsets of a group."""

    topic: str
    partition: int
    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionPrepared(Event, frozen=True, gc=False, tag="transaction_prepared"):
    """It is decided how it ends, and why: `client` asked for it, its time was up (`timeout`), or another producer with
    its id has begun (`fenced`). The epoch is that of the markers."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    reason: str
    partitions: int
    open_ms: int


class TransactionMarked(Event, frozen=True, gc=False, tag="transaction_marked"):
    """The marker that ends it in a partition is in the leader's log, at `offset`."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    offset: int
    coordinator_epoch: int
    leader_epoch: int


class TransactionCompleted(Event, frozen=True, gc=False, tag="transaction_completed"):
    """Every partition has its marker. The identity is the one that its producer goes on with."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    took_ms: int  # since it was prepared


# --- how things stand, once a second while tracing


class FollowerSeen(msgspec.Struct, frozen=True, gc=False, rename=STORED_NAMES):
    """What the leader knows of a follower."""

    node: int
    is_in_sync: bool
    durable_end_offset: int  # it has everything below this; -1 when it has not been heard of
    lag_records: int
    lag_ms: int  # since it last had all that the leader had; 0 while it has
    silent_ms: int  # since its last fetch that named this partition or moved it; -1: never


class OpenTransactionSeen(msgspec.Struct, frozen=True, gc=False):
    """A transaction that has begun in a partition, and has no marker there."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int  # of its last batch here; the same at two times: nothing was written in between


class PartitionSeen(Event, frozen=True, gc=False, tag="partition_seen", rename=STORED_NAMES):
    """A partition, reported by its leader."""

    topic: str
    partition: int
    leader_epoch: int
    log_start: int
    last_stable_offset: int
    watermark: int
    next_offset: int
    durable_end_offset: int  # the leader itself has everything below this safely
    in_sync: tuple[int, ...]
    in_sync_min: int  # min.insync.replicas, and never more than there are replicas
    followers: tuple[FollowerSeen, ...]
    size_bytes: int
    is_traced: bool = False  # whether what clients do with it is in the trace, too
    open_transactions: tuple[OpenTransactionSeen, ...] = ()  # the earliest, which holds the last stable offset


class MemberSeen(msgspec.Struct, frozen=True, gc=False):
    """A member of a group and what it was given to read, as (topic, partition)."""

    member_id: str
    client_id: str
    host: str
    assigned: tuple[tuple[str, int], ...]


class OffsetSeen(msgspec.Struct, frozen=True, gc=False):
    """What a group has committed for a partition."""

    topic: str
    partition: int
    offset: int


class GroupSeen(Event, frozen=True, gc=False, tag="group_seen"):
    """A group, reported by its coordinator."""

    group: str
    type: str
    state: str
    generation: int
    state_ms: int  # how long it has been in this state, as far as this node knows
    members: tuple[MemberSeen, ...]
    offsets: tuple[OffsetSeen, ...]


class MarkerMissing(msgspec.Struct, frozen=True, gc=False):
    """A partition that has no marker yet, although its transaction is decided."""

    topic: str
    partition: int
    leader: int  # -1: no node leads it
    reason: str  # why the last try failed; empty while the first is under way


class TransactionSeen(Event, frozen=True, gc=False, tag="transaction_seen"):
    """A transaction that is not over after a second, reported by its coordinator."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    open_ms: int
    state_ms: int  # since it last changed: since the last partition was added, or since it was decided
    partitions: tuple[tuple[str, int], ...]  # the first hundred
    missing: tuple[MarkerMissing, ...]  # the first ten


# --- about the trace itself


class TraceBegan(Event, frozen=True, gc=False, tag="trace_began"):
    """This node traces from here on: it started, or tracing was switched on. What was under way before is not in its
    trace."""


class EventsLost(Event, frozen=True, gc=False, tag="events_lost"):
    """So many events before this one are not known: nothing took them for the trace topic, or they were let go."""

    count: int


AnyEvent: TypeAlias = (
    ProduceAppended
    | ProduceAnswered
    | Replicated
    | WatermarkMoved
    | FetchWaits
    | FetchAnswered
    | FetchDropped
    | RefusedEvent
    | MetadataTold
    | LeaderChanged
    | InSyncChanged
    | GroupJoined
    | GroupLeft
    | GroupChanged
    | Committed
    | OffsetPending
    | OffsetDropped
    | TransactionBegun
    | TransactionPartitionAdded
    | TransactionPrepared
    | TransactionMarked
    | TransactionCompleted
    | PartitionSeen
    | GroupSeen
    | TransactionSeen
    | TraceBegan
    | EventsLost
)
