"""A copy of a partition on this node: the one place that knows how far it is safe.

Three offsets, one source of truth each: the log's start and end belong to the log, the high watermark belongs here.
An in-sync replica counts up to where its write is *safe*: synced to disk, or with `durability = "os"` written.
The leader's watermark is the smallest of those ends; a follower's is what its leader says, as far as the follower has
it itself. It never moves back, whichever node leads: a new leader begins with the watermark it had as a follower.
"""

from __future__ import annotations

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.appended import Appended
from chronik.core.log.horizon import NOTHING_GONE
from chronik.core.log.log import Log
from chronik.core.log.producers import VerificationGuard
from chronik.core.log.segment import Slice
from chronik.core.records.batch import BatchHeader, accept
from chronik.core.records.control import Marker
from chronik.core.replica.divergence import Diverging, diverging
from chronik.core.replica.in_sync import ANY_EPOCH, UNBOUNDED, InSyncSet
from chronik.core.types import UNKNOWN_OFFSET, Buffer

READ_COMMITTED = 1
ACKS_ALL = -1
NO_LEADER = -1


class Replica:
    """This node's copy of a partition. The same object through every change of role: waiting lines hang on it."""

    __slots__ = (
        "_is_synced",
        "_others_durable_end",
        "durable_end_offset",
        "epoch_start",
        "high_watermark",
        "in_sync",
        "is_leader",
        "leader_epoch",
        "leader_id",
        "log",
        "node_id",
        "offline",
        "opened_watermark",
        "partition",
        "partition_epoch",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        log: Log,
        *,
        node_id: int,
        is_synced: bool,
        high_watermark: int = 0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.node_id = node_id
        self.is_leader = False
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.epoch_start = UNKNOWN_OFFSET  # where this leader's log ended when it was elected
        self.in_sync: InSyncSet | None = None  # kept while leading
        self.offline: str | None = None  # why it is not served; None while it is
        self._is_synced = is_synced  # durability = "sync"
        # Up to where this node alone has it safely: what acks=1 waits for, and where a follower fetches from; set here
        # only. What a log holds when it is opened was recovered from disk, so it is safe here.
        self.durable_end_offset = log.end_offset
        # What is known to be safe elsewhere: on all replicas that count while leading, by word of the leader else.
        self.high_watermark = max(min(high_watermark, log.end_offset), log.start_offset)
        self._others_durable_end = self.high_watermark
        self.opened_watermark = self.high_watermark  # what was known of it when the log was opened

    # --- which node leads

    def lead(
        self, leader_epoch: int, partition_epoch: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], now_ms: int
    ) -> bool:
        """The metadata says that this node leads, with this in-sync set. True when the watermark moved."""
        if self.is_leader and leader_epoch <= self.leader_epoch and partition_epoch <= self.partition_epoch:
            return False  # known already, from the controller's answer
        if self.in_sync is None or leader_epoch > self.leader_epoch:
            self.is_leader, self.leader_id, self.leader_epoch = True, self.node_id, leader_epoch
            self.epoch_start = self.log.end_offset
            # Followers may have batches of epochs that this log never saw: they are all below this one (KIP-101).
            self.log.epochs.assign(leader_epoch, self.epoch_start)
            self.in_sync = InSyncSet(self.node_id, replicas, in_sync, partition_epoch, now_ms)
        else:
            self.in_sync.decided(in_sync, partition_epoch, replicas, now_ms)
        self.partition_epoch = partition_epoch
        return self.recount()

    def lead_alone(self, leader_epoch: int = 0) -> None:
        """Lead a partition that is on this node only."""
        self.lead(leader_epoch, 0, (self.node_id,), (self.node_id,), 0)

    def follow(self, leader_id: int, leader_epoch: int, partition_epoch: int) -> None:
        """The metadata says that another node leads, or none (-1)."""
        if partition_epoch < self.partition_epoch:
            return
        is_led_anew = self.is_leader or leader_epoch != self.leader_epoch
        self.is_leader, self.leader_id, self.leader_epoch = False, leader_id, leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start = UNKNOWN_OFFSET
        self.in_sync = None
        self.log.epochs.truncate(self.log.end_offset)  # the epoch it led without writing anything
        if is_led_anew:  # else the leader has said it, and will not say it again: the own sync may still be under way
            self._others_durable_end = self.high_watermark

    def in_sync_decided(self, in_sync: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller answered what the set is. True when the watermark moved."""
        if self.in_sync is None or partition_epoch <= self.partition_epoch:
            return False
        self.in_sync.decided(in_sync, partition_epoch)
        self.partition_epoch = partition_epoch
        return self.recount()

    @property
    def in_sync_min(self) -> int:
        """How many must be in sync for acks=all: never more than there are replicas."""
        assert self.in_sync is not None  # only the leader asks
        return min(self.log.config.min_insync_replicas, self.in_sync.replica_count)

    # --- what kind of promise

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    def is_synced(self) -> bool:
        """Whether an acknowledgement waits for the disk: always, or because the topic has every message flushed."""
        return self._is_synced or self.log.config.flush_messages == 1

    @property
    def is_flush_due(self) -> bool:
        """Whether so much has been written since the last sync that the topic's `flush.messages` asks for one."""
        return self.log.end_offset - self.log.synced_offset >= self.log.config.flush_messages

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, for good: its marker is below the high watermark too."""
        undecided = self.log.first_undecided(self.high_watermark)
        return self.high_watermark if undecided is None else min(undecided, self.high_watermark)

    @property
    def is_watermark_known(self) -> bool:
        """A new leader may know a lower watermark than clients were sent, until it has its epoch's start."""
        return self.high_watermark >= self.epoch_start

    def readable_bound(self, isolation_level: int) -> int:
        """Consumers read below this."""
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def check_epoch(self, leader_epoch: int) -> None:
        """Refuse a client that believes in another leader than this one (KIP-320); -1 means it does not say."""
        if leader_epoch == -1 or leader_epoch == self.leader_epoch:
            return
        if leader_epoch < self.leader_epoch:
            raise Refused(Code.FENCED_LEADER_EPOCH)
        raise Refused(Code.UNKNOWN_LEADER_EPOCH)

    # --- the leader's work

    def append(
        self, records: memoryview | bytearray, acks: int, now_ms: int, guard: VerificationGuard | None = None
    ) -> Appended:
        """Take a producer's batch. Safe only when the watermark (acks=all) or `durable_end_offset` (acks=1) has passed
        it. The first of a transaction needs the guard of its verification (`log.producers`)."""
        in_sync = self.in_sync
        if in_sync is None:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        header = accept(records)
        if acks == ACKS_ALL and len(in_sync.in_sync) < self.log.config.min_insync_replicas:
            self._check_enough_in_sync(in_sync, header)
        try:
            appended = self.log.append(records, header, self.leader_epoch, now_ms, guard)
        except OSError:
            self.log.producers.put_off(header)
            raise
        if not self.is_synced:
            self.own_safe(self.log.end_offset)
        return appended

    def append_marker(
        self, marker: Marker, producer_id: int, producer_epoch: int, now_ms: int, transaction_version: int = 0
    ) -> Appended:
        """Write that a producer's transaction has ended, as its coordinator says. Safe when the watermark passes it."""
        self._check_may_append()
        who = producer_id, producer_epoch
        appended = self.log.append_marker(marker, *who, self.leader_epoch, now_ms, transaction_version)
        if not self.is_synced:
            self.own_safe(self.log.end_offset)
        return appended

    def append_of_coordinator(
        self, records: bytearray, now_ms: int, guard: VerificationGuard | None = None
    ) -> Appended:
        """Take what a coordinator on this node writes in the name of a transactional producer."""
        self._check_may_append()
        appended = self.log.append_of_coordinator(records, accept(records), self.leader_epoch, now_ms, guard)
        if not self.is_synced:
            self.own_safe(self.log.end_offset)
        return appended

    def _check_may_append(self) -> None:
        """Only a leader writes, and what waits for all replicas only with enough of them."""
        in_sync = self.in_sync
        if in_sync is None:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        if len(in_sync.in_sync) < self.in_sync_min:
            raise Refused(
                Code.NOT_ENOUGH_REPLICAS, f"in sync are {list(in_sync.in_sync)}, {self.in_sync_min} are wanted"
            )

    def _check_enough_in_sync(self, in_sync: InSyncSet, header: BatchHeader) -> None:
        if len(in_sync.in_sync) < self.in_sync_min:
            self.log.producers.put_off(header)
            raise Refused(
                Code.NOT_ENOUGH_REPLICAS, f"in sync are {list(in_sync.in_sync)}, {self.in_sync_min} are wanted"
            )

    def code_when_safe(self) -> Code:
        """The response to an acks=all producer once the watermark has passed its batch: the set may have shrunk below
        what was wanted since it was appended."""
        in_sync = self.in_sync
        if in_sync is None or len(in_sync.in_sync) >= self.log.config.min_insync_replicas:
            return Code.NONE
        is_enough = len(in_sync.maximal) >= self.in_sync_min
        return Code.NONE if is_enough else Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def follower_fetched(self, follower_id: int, fetch_offset: int, now_ms: int, broker_epoch: int = ANY_EPOCH) -> bool:
        """A follower asks for what comes after `fetch_offset`: it has all below. True when the watermark moved."""
        assert self.in_sync is not None  # only the leader is asked
        self.in_sync.fetched(follower_id, fetch_offset, self.log.end_offset, now_ms, broker_epoch)
        return self.recount()

    def own_safe(self, end_offset: int) -> bool:
        """This node has everything below `end_offset` safely. True when the watermark moved."""
        # Syncs may be reported twice or out of order: only the furthest counts.
        if end_offset > self.durable_end_offset:
            self.durable_end_offset = end_offset
        return self._advance()

    def recount(self) -> bool:
        """Look anew at what the others have, after the set, a setting or one of them changed. True when the watermark
        moved."""
        in_sync = self.in_sync
        if in_sync is not None:
            # With fewer in sync than wanted nothing becomes safe (KIP-966): who left the set then has all that is.
            is_enough = len(in_sync.in_sync) >= self.in_sync_min
            self._others_durable_end = in_sync.others_durable_end if is_enough else self.high_watermark
        return self._advance()

    def _advance(self) -> bool:
        own, others = self.durable_end_offset, self._others_durable_end
        safe = own if own < others else others
        if safe <= self.high_watermark:
            return False
        self.high_watermark = safe
        self.log.producers.undecided.forget_decided(safe)
        return True

    def read(self, fetch_offset: int, max_bytes: int, isolation_level: int, *, at_least_one: bool) -> Slice | None:
        """What a consumer may have from `fetch_offset` on; None when it has to wait for more."""
        log = self.log
        if fetch_offset < log.start_offset or fetch_offset > log.end_offset:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        bound = self.readable_bound(isolation_level)
        if fetch_offset >= bound:
            return None
        return log.read(fetch_offset, bound, max_bytes, at_least_one=at_least_one)

    def read_for_follower(
        self, fetch_offset: int, last_epoch: int, max_bytes: int, *, at_least_one: bool
    ) -> Slice | Diverging | None:
        """What a follower gets: everything up to the end, synced here or not; or where its log parts from this one."""
        log = self.log
        parting = diverging(log, fetch_offset, last_epoch)
        if parting is not None:
            return parting
        return log.read(fetch_offset, log.end_offset, max_bytes, at_least_one=at_least_one)

    def tombstones_needed_from(self, now_ms: int, lag_time_max_ms: int) -> int:
        """From where on a follower that is on its way may still need tombstones."""
        return UNBOUNDED if self.in_sync is None else self.in_sync.slowest_fetching(now_ms, lag_time_max_ms)

    @property
    def low_watermark(self) -> int:
        """What is below is gone from every replica that may lead next, as far as this leader knows; -1: it does not."""
        start_offset = self.log.start_offset
        if self.in_sync is None:
            return start_offset
        if len(self.in_sync.in_sync) < self.in_sync_min:
            return UNKNOWN_OFFSET  # who left the set may lead all the same (KIP-966), and has heard of nothing
        return self.in_sync.low_watermark(start_offset)

    def delete_records(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the watermark). Returns the log start that then holds."""
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return self.log.start_offset

    # --- the follower's work

    def append_as_follower(self, batches: Buffer, now_ms: int, leader_horizon: int = NOTHING_GONE) -> None:
        """Take batches as the leader has them. When the disk fails in between, those before are there."""
        try:
            self.log.append_as_follower(batches, now_ms, leader_horizon)
        finally:
            if not self.is_synced:
                self.own_safe(self.log.end_offset)

    def apply_leader_watermark(self, high_watermark: int, start_offset: int) -> bool:
        """What the leader says is safe, and where its log starts. True when something of it was new here."""
        self._others_durable_end = max(self._others_durable_end, high_watermark)
        has_moved = self._advance()
        start_offset = min(start_offset, self.high_watermark)
        if start_offset > self.log.start_offset:
            self.log.advance_start(start_offset)
            has_moved = True
        return has_moved

    def truncate_to(self, end_offset: int) -> bool:
        """Give up what the leader does not have. True when that was below the watermark: only the election of a
        leader that was not in sync does that."""
        self.log.truncate_to(end_offset)
        return self._cut()

    def reset_to(self, offset: int) -> bool:
        """Begin anew at `offset`, where the leader's log starts. True when that is below the watermark."""
        self.log.reset_to(offset)
        return self._cut()

    def _cut(self) -> bool:
        end_offset = self.log.end_offset
        self.durable_end_offset = self.log.synced_offset if self.is_synced else end_offset
        was_safe = end_offset < self.high_watermark
        self.high_watermark = max(min(self.high_watermark, end_offset), self.log.start_offset)
        self._others_durable_end = self.high_watermark
        return was_safe

    def take_offline(self, reason: str) -> None:
        """Serve nothing of it any more: its disk failed, or its bytes are not what was written."""
        self.offline = reason
