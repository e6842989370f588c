"""The steps of requests as they are recorded in the trace: each method makes one event, of what the step knows anyway.

A fetch that returns something is always reported. Of those that give nothing, which are most of them while a consumer
waits for more, each connection tells one a second, with all its partitions; and any that waits for longer than that. A
watermark that moves all the time is recorded every few milliseconds: how far it has come since it was recorded last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from chronik.core.errors import Code
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.replica.replica import READ_COMMITTED, Replica
from chronik.trace.batches import PendingBatches
from chronik.trace.events import (
    Committed,
    FetchAnswered,
    FetchDropped,
    FetchWaits,
    GroupChanged,
    GroupJoined,
    GroupLeft,
    InSyncChanged,
    LeaderChanged,
    MetadataTold,
    OffsetDropped,
    OffsetPending,
    RefusedEvent,
    Replicated,
    TransactionBegun,
    TransactionCompleted,
    TransactionMarked,
    TransactionPartitionAdded,
    TransactionPrepared,
    WatermarkMoved,
)
from chronik.trace.observer import FetchAsked, FetchPart, ObservedClient
from chronik.trace.readers import Readers
from chronik.trace.recorder import Recorder

if TYPE_CHECKING:
    from chronik.core.machines.groups.pending_offsets import OffsetOwner
    from chronik.core.machines.transactions.transaction import Transaction
    from chronik.core.records.control import Marker
    from chronik.core.types import TopicPartition

MOVES_MS = 10  # how long further moves of a watermark are not reported
QUIET_US = 1_000_000  # how long a connection's fetches that return nothing are not reported
CONNECTIONS_MAX = 10_000  # remembered for that; a node has fewer, but those that are gone are not forgotten at once


class Steps:
    """The observer while something is traced. Most topics are not: `wants` says which are."""

    is_observing = True

    def __init__(self, recorder: Recorder) -> None:
        self.node_id = recorder.node_id
        self.now_us = recorder.clock.now_us
        self.wanted: Mapping[str, bool] = recorder.wanted  # for who asks for each batch: no call
        self.wants: Callable[[str], bool] = recorder.wanted.__getitem__
        self.add = recorder.add
        self.batches = PendingBatches(recorder.node_id, recorder.clock.now_ns, recorder.put, recorder.soon)
        # Facts of batches go to them directly: there are many.
        self.now_ns = self.batches.now_ns
        self.appended = self.batches.appended
        self.batch_refused = self.batches.refused
        self.hung_up = self.batches.hung_up
        self._seal_if_due = recorder.seal_if_due
        self._later = recorder.later
        self.readers = Readers()
        self.waiting: dict[FetchSteps, None] = {}  # fetches that wait, longest first
        # The watermark in the last event of each replica; where there is none yet, it is where the replica was opened.
        self._recorded_watermarks: dict[Replica, int] = {}
        self._recorded_lately: dict[Replica, None] = {}  # whose watermark: further moves wait for the next event
        self._empty_fetch_us: dict[int, int] = {}  # by connection: when a fetch that gave nothing was last recorded

    # --- replicating

    def replicated(self, replica: Replica, follower: int, from_offset: int, to_offset: int) -> None:
        """A follower said how far it is: perhaps no further than before."""
        if to_offset != from_offset and self.wants(replica.topic):
            at_us, node, topic = self.now_us(), self.node_id, replica.topic
            self.add(Replicated(at_us, node, topic, replica.partition, follower, from_offset, to_offset))

    def begin_watermarks(self, replicas: Iterable[Replica]) -> None:
        """What is traced is another: the moves of these replicas are recorded from here on. Others are forgotten."""
        self._recorded_watermarks = {replica: replica.high_watermark for replica in replicas}

    def keep_watermarks(self, replicas: Collection[Replica]) -> None:
        """Only these are on this node still."""
        if len(self._recorded_watermarks) > len(replicas):
            kept = self._recorded_watermarks
            self._recorded_watermarks = {replica: kept[replica] for replica in replicas if replica in kept}

    def watermark_moved(self, replica: Replica) -> None:
        if replica not in self._recorded_lately:
            self._record_if_moved(replica)
        if replica in self.batches.awaited:
            self.batches.released(replica)

    def _record_if_moved(self, replica: Replica) -> None:
        """A replica's watermark may have moved since its last event."""
        if replica in self._recorded_lately or not self._has_moved(replica) or not self.wants(replica.topic):
            return
        self._record_move(replica)
        if self._later is not None:
            if not self._recorded_lately:
                self._later(MOVES_MS, self._record_later_moves)
            self._recorded_lately[replica] = None

    def _has_moved(self, replica: Replica) -> bool:
        return replica.high_watermark != self._recorded_watermarks.get(replica, replica.opened_watermark)

    def _record_later_moves(self) -> None:
        """Those with an event a moment ago may have moved on."""
        lately, self._recorded_lately = self._recorded_lately, {}
        for replica in lately:
            if self._has_moved(replica):
                self._record_if_moved(replica)
        self._seal_if_due()  # with batches watermarks move

    def _record_move(self, replica: Replica) -> None:
        before, watermark = self._recorded_watermarks.get(replica, replica.opened_watermark), replica.high_watermark
        self._recorded_watermarks[replica] = watermark
        self.add(
            WatermarkMoved(
                self.now_us(),
                self.node_id,
                replica.topic,
                replica.partition,
                before,
                watermark,
                replica.log.end_offset,
                replica.is_leader,
            )
        )

    # --- consuming

    def fetch(self, request: FetchAsked, client: ObservedClient) -> FetchSteps:
        """A consumer asks."""
        now_us, connection = self.now_us(), client.connection_id
        is_full = now_us - self._empty_fetch_us.get(connection, 0) >= QUIET_US
        if is_full:
            if len(self._empty_fetch_us) >= CONNECTIONS_MAX:
                self._empty_fetch_us.clear()
            self._empty_fetch_us[connection] = now_us
        return FetchSteps(self, request, client, now_us, is_full)

    def tell_waiting(self) -> None:
        """Tell of fetches that have waited for so long that it is worth knowing even if they never end."""
        now_us = self.now_us()
        for fetch in list(self.waiting):
            if now_us - fetch.since_us < QUIET_US:
                return  # and so it is with those that came later
            fetch.tell_waiting(now_us)

    # --- refusals, and what Metadata responses said

    def refused(
        self,
        api: str,
        client: ObservedClient,
        code: int,
        reason: str | None,
        topic: str | None = None,
        partition: int = -1,
        leader: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        """What names no topic is recorded whatever is traced: there is little of it, and groups have no topic."""
        if topic is not None and not self.wants(topic):
            return
        self.add(
            RefusedEvent(
                self.now_us(),
                self.node_id,
                api,
                client.client_id,
                client.client_host,
                client.connection_id,
                code,
                Code(code).name,
                reason,
                topic,
                partition,
                leader,
                leader_epoch,
                str(client.principal),
            )
        )

    def metadata_told(
        self, topic: str, client: ObservedClient, brokers: Iterable[int], controller: int, leaders: Iterable[int]
    ) -> None:
        self.add(
            MetadataTold(
                self.now_us(),
                self.node_id,
                topic,
                client.client_id,
                client.client_host,
                client.connection_id,
                tuple(brokers),
                controller,
                tuple(leaders),
            )
        )

    # --- leaders and in-sync sets

    def leader_changed(self, replica: Replica, leader_before: int, leader_epoch_before: int) -> None:
        if self.wants(replica.topic):
            self.add(
                LeaderChanged(
                    self.now_us(),
                    self.node_id,
                    replica.topic,
                    replica.partition,
                    leader_before,
                    leader_epoch_before,
                    replica.leader_id,
                    replica.leader_epoch,
                )
            )

    def in_sync_changed(self, replica: Replica, before: Sequence[int]) -> None:
        """The set may be another than before; reported by the leader."""
        kept = replica.in_sync
        if kept is not None and tuple(before) != kept.in_sync and self.wants(replica.topic):
            at_us, node, topic, partition = self.now_us(), self.node_id, replica.topic, replica.partition
            self.add(InSyncChanged(at_us, node, topic, partition, tuple(before), kept.in_sync, replica.partition_epoch))

    # --- groups

    def group_joined(self, group: str, member_id: str, client_id: str, host: str) -> None:
        self.add(GroupJoined(self.now_us(), self.node_id, group, member_id, client_id, host))

    def group_left(self, group: str, member_id: str, client_id: str, host: str, reason: str) -> None:
        self.add(GroupLeft(self.now_us(), self.node_id, group, member_id, client_id, host, reason))

    def group_changed(self, group: str, state_before: str, state: str, generation: int, members: int) -> None:
        self.add(GroupChanged(self.now_us(), self.node_id, group, state_before, state, generation, members))

    def reader_heard(self, group: str, client_id: str, host: str) -> None:
        self.readers.heard(group, client_id, host, self.now_us())

    def reader_left(self, group: str, client_id: str, host: str) -> None:
        self.readers.left(group, client_id, host)

    def committed(self, topic: str, partition: int, group: str, client: ObservedClient, offset: int) -> None:
        if self.wants(topic):
            at_us, client_id, host = self.now_us(), client.client_id, client.client_host
            self.add(Committed(at_us, self.node_id, topic, partition, group, client_id, host, offset))

    # --- transactions

    def transaction_begun(self, transaction: Transaction) -> None:
        """A transaction is of no topic: like a group, it is recorded whatever is traced."""
        self.add(TransactionBegun(self.now_us(), self.node_id, *_identity(transaction), transaction.timeout_ms))

    def transaction_partition_added(self, transaction: Transaction, partition: TopicPartition) -> None:
        if self._is_part(partition.topic):
            topic, number = partition
            self.add(TransactionPartitionAdded(self.now_us(), self.node_id, topic, number, *_identity(transaction)))

    def transaction_prepared(self, transaction: Transaction, reason: str, open_ms: int) -> None:
        name, producer_id, epoch = _identity(transaction)
        how = transaction.is_commit, reason, len(transaction.partitions), open_ms
        self.add(TransactionPrepared(self.now_us(), self.node_id, name, producer_id, epoch, *how))

    def transaction_marked(
        self, replica: Replica, producer_id: int, producer_epoch: int, marker: Marker, offset: int
    ) -> None:
        if self._is_part(replica.topic):
            at_us, topic, partition = self.now_us(), replica.topic, replica.partition
            how = marker.is_commit, offset, marker.coordinator_epoch, replica.leader_epoch
            self.add(TransactionMarked(at_us, self.node_id, topic, partition, producer_id, producer_epoch, *how))

    def transaction_completed(self, transaction: Transaction, took_ms: int) -> None:
        is_commit = transaction.has_committed
        self.add(TransactionCompleted(self.now_us(), self.node_id, *_identity(transaction), is_commit, took_ms))

    def _is_part(self, topic: str) -> bool:
        """Our own topic is never traced, but it has its part in transactions."""
        return topic == OFFSETS_TOPIC or self.wants(topic)

    def offset_pending(self, owner: OffsetOwner, producer_id: int, offset: int) -> None:
        group, topic, partition = owner
        if self.wants(topic):
            self.add(OffsetPending(self.now_us(), self.node_id, topic, partition, group, producer_id, offset))

    def offset_committed(self, owner: OffsetOwner, producer_id: int, offset: int) -> None:
        group, topic, partition = owner
        if self.wants(topic):
            what = topic, partition, group, "", "", offset, producer_id
            self.add(Committed(self.now_us(), self.node_id, *what))

    def offset_dropped(self, owner: OffsetOwner, producer_id: int, offset: int, reason: str) -> None:
        group, topic, partition = owner
        if self.wants(topic):
            what = topic, partition, group, producer_id, offset, reason
            self.add(OffsetDropped(self.now_us(), self.node_id, *what))


def _identity(transaction: Transaction) -> tuple[str, int, int]:
    return transaction.transactional_id, transaction.producer_id, transaction.producer_epoch


class FetchSteps:
    """A consumer's fetch from question to answer."""

    __slots__ = ("_client", "_group", "_has_waited", "_is_full", "_parts", "_request", "_steps", "since_us")

    def __init__(self, steps: Steps, request: FetchAsked, client: ObservedClient, since_us: int, is_full: bool) -> None:
        self._steps = steps
        self._request = request
        self._client = client
        self._group = steps.readers.group_of(client.client_id, client.client_host, since_us)
        self.since_us = since_us
        self._is_full = is_full  # all of it is reported, also what returns nothing
        self._has_waited = False
        self._parts: Sequence[FetchPart] = ()

    def waits(self, parts: Sequence[FetchPart]) -> None:
        """There is too little to give, so it waits."""
        self._has_waited = True
        self._parts = parts
        self._steps.waiting[self] = None
        if self._is_full:
            self._tell_waiting(self._steps.now_us())

    def tell_waiting(self, now_us: int) -> None:
        self._is_full = True  # its end is to be recorded as well
        self._tell_waiting(now_us)

    def _tell_waiting(self, now_us: int) -> None:
        steps, request, client = self._steps, self._request, self._client
        for part in self._parts:
            replica, asked = part.replica, part.asked
            if replica is None or not steps.wants(replica.topic):
                continue
            steps.add(
                FetchWaits(
                    now_us,
                    steps.node_id,
                    replica.topic,
                    replica.partition,
                    client.client_id,
                    client.client_host,
                    client.connection_id,
                    self._group,
                    asked.fetch_offset,
                    asked.max_bytes,
                    request.min_bytes,
                    request.max_wait_ms,
                    request.isolation_level == READ_COMMITTED,
                    replica.high_watermark,
                    replica.last_stable_offset,
                    replica.log.end_offset,
                    now_us - self.since_us,
                )
            )

    def answered(self, part: FetchPart, size_bytes: int) -> None:
        """What it gives of a partition, and so much of it."""
        steps, request, client = self._steps, self._request, self._client
        replica, asked = part.replica, part.asked
        if replica is None or not steps.wants(replica.topic):
            return
        offset = asked.fetch_offset
        has_given = size_bytes > 0 and part.slice is not None
        # Nothing, although there is something: that must not happen often, so each time is reported.
        is_normal = has_given or offset >= replica.readable_bound(request.isolation_level)
        if not (has_given or self._is_full) and is_normal:
            return
        now_us = steps.now_us()
        steps.add(
            FetchAnswered(
                now_us,
                steps.node_id,
                replica.topic,
                replica.partition,
                client.client_id,
                client.client_host,
                client.connection_id,
                self._group,
                offset,
                asked.max_bytes,
                request.min_bytes,
                request.max_wait_ms,
                request.isolation_level == READ_COMMITTED,
                replica.high_watermark,
                replica.last_stable_offset,
                replica.log.end_offset,
                part.slice.next_offset if has_given and part.slice is not None else offset,
                size_bytes,
                self._has_waited,
                now_us - self.since_us,
                str(client.principal),
            )
        )

    def ended(self) -> None:
        """It waits no longer."""
        self._steps.waiting.pop(self, None)

    def dropped(self) -> None:
        """Its client hung up before it was answered."""
        steps, client, now_us = self._steps, self._client, self._steps.now_us()
        for part in self._parts:
            replica = part.replica
            if replica is None or not steps.wants(replica.topic):
                continue
            steps.add(
                FetchDropped(
                    now_us,
                    steps.node_id,
                    replica.topic,
                    replica.partition,
                    client.client_id,
                    client.client_host,
                    client.connection_id,
                    self._group,
                    part.asked.fetch_offset,
                    self._request.max_wait_ms,
                    now_us - self.since_us,
                )
            )
