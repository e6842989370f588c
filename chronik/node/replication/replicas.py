"""What is written to and read from the partitions of this node, and what a failure of the disk means to each (with
`partition_registry`, Kafka's `ReplicaManager`).

A disk that is full, or descriptors or memory that ran out, refuse a batch or a read, and it goes on when there is some
again. A write, sync or read that fails otherwise, and bytes that are not what was written, take that one replica
offline; the node and every other partition go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from chronik.core.errors import Code, Corrupt, Interrupted, Refused, shortage_of
from chronik.core.log.appended import Appended
from chronik.core.log.horizon import NOTHING_GONE
from chronik.core.log.producers import VerificationGuard
from chronik.core.log.segment import Slice
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import SENT_UNREAD_BYTES, Clock, File, Files, FileSlice, Outgoing, Unread
from chronik.core.records.control import MARKER_BYTES, Marker
from chronik.core.replica.replica import Replica
from chronik.core.types import Buffer
from chronik.node.replication.partition_logs import PartitionLogs
from chronik.node.replication.partition_registry import NO_LISTENERS, PartitionRegistry, ReplicaListeners
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.sync_rounds import SyncRounds
from chronik.node.runtime.long_work import LongWork
from chronik.trace.metrics import Metrics
from chronik.trace.observer import NOT_OBSERVED, Observation

log = logging.getLogger(__name__)


class Replicas:
    """What is written to and read from this node's replicas."""

    def __init__(
        self,
        partitions: PartitionRegistry,
        logs: PartitionLogs,
        sync_rounds: SyncRounds,
        purgatory: Purgatory,
        files: Files,
        clock: Clock,
        metrics: Metrics,
        *,
        listeners: ReplicaListeners = NO_LISTENERS,
        observation: Observation = NOT_OBSERVED,
    ) -> None:
        self.partitions = partitions
        self.logs = logs
        self.sync_rounds = sync_rounds
        self.purgatory = purgatory
        self._files = files
        self._clock = clock
        self._metrics = metrics
        self._listeners = listeners
        self._observation = observation
        self.long_work = LongWork(files)
        self.shortage: str | None = None  # what the last batch was refused for: the disk is full, say
        self.read_shortage: str | None = None  # the same of the last read

    # --- which there are

    def leader(self, topic: str, partition: int) -> Replica:
        """The replica that leads here. Raises Refused."""
        return self.partitions.leader(topic, partition)

    def readable(self, topic: str, partition: int) -> Replica:
        """As `leader`, or a follower: consumers may read from either (KIP-392)."""
        return self.partitions.readable(topic, partition)

    def held(self) -> Iterator[Replica]:
        """Every replica whose log is open, by topic and partition."""
        return self.partitions.held()

    # --- writing

    def append(
        self,
        replica: Replica,
        records: memoryview | bytearray,
        acks: int,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        return self._append(replica, partial(replica.append, records, acks, self._clock.now_ms(), guard), len(records))

    def append_of_coordinator(
        self, replica: Replica, records: bytearray, guard: VerificationGuard | None = None
    ) -> Appended:
        """What a coordinator on this node writes in the name of a transactional producer; never less than acks=all."""
        write = partial(replica.append_of_coordinator, records, self._clock.now_ms(), guard)
        return self._append(replica, write, len(records))

    def append_marker(
        self, replica: Replica, marker: Marker, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> Appended:
        """Write that a producer's transaction has ended."""
        who = producer_id, producer_epoch
        write = partial(replica.append_marker, marker, *who, self._clock.now_ms(), transaction_version)
        return self._append(replica, write, MARKER_BYTES)

    def _append(self, replica: Replica, write: Callable[[], Appended], size_bytes: int) -> Appended:
        if replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, replica.offline)
        try:
            if replica.log.end_offset == 0:  # before there is anything in it: whose it is must not be in doubt later
                self.logs.directories.mark(replica)
            appended = write()
        except OSError as problem:
            what = shortage_of(problem)
            if what is not None:
                self.run_short(what)
                raise Refused(Code.KAFKA_STORAGE_ERROR, what) from problem
            self.partitions.take_offline(replica, f"write failed: {problem}")
            raise Refused(Code.KAFKA_STORAGE_ERROR, f"write failed: {problem}") from problem
        except Corrupt as problem:  # met while looking up an earlier batch of its producer, or in the index
            self.partitions.take_offline(replica, str(problem))
            raise Refused(Code.KAFKA_STORAGE_ERROR, str(problem)) from problem
        if self.shortage is not None and appended.is_new:
            log.info("a batch was taken again, after %s", self.shortage)
            self.shortage = None
        metrics = self._metrics
        if appended.is_new:
            metrics.produced_batches += 1
            metrics.bytes_in += size_bytes
        else:
            metrics.duplicate_batches += 1
        is_synced = replica.is_synced
        if is_synced or replica.is_flush_due:
            self.sync_rounds.due(replica)
        if appended.is_new:
            if not is_synced:
                self.purgatory.moved(replica)
            elif replica.in_sync is not None and replica.in_sync.followers:
                self.purgatory.appended(replica)
        return appended

    def delete_records(self, replica: Replica, offset: int) -> int:
        start_offset = replica.delete_records(offset)
        self.purgatory.appended(
            replica
        )  # followers hear of it at once: what is gone does not come back with one of them
        return start_offset

    def expire(self, replica: Replica, now_ms: int) -> list[str]:
        """Have the log start behind what retention lets go, and say what that is."""
        expired = replica.log.expire(now_ms, replica.high_watermark)
        if expired:
            self.purgatory.appended(replica)  # its followers need not keep them either
            self._listeners.start_moved(replica)  # its leader may wait to hear that it has let go
        return expired

    # --- leader and follower

    def follower_starts_at(self, replica: Replica, follower_id: int, log_start: int) -> None:
        """Notify the requests that wait for records to be gone everywhere."""
        if replica.in_sync is not None and replica.in_sync.followers[follower_id].log_start != log_start:
            replica.in_sync.followers[follower_id].log_start = log_start
            self.purgatory.appended(replica)

    def follower_fetched(self, replica: Replica, follower_id: int, fetch_offset: int, broker_epoch: int) -> None:
        in_sync, observer = replica.in_sync, self._observation.observer
        is_observed = in_sync is not None and observer.wants(replica.topic)
        before = in_sync.followers[follower_id].durable_end_offset if in_sync is not None and is_observed else -1
        has_moved = replica.follower_fetched(follower_id, fetch_offset, self._clock.monotonic_ms(), broker_epoch)
        if in_sync is not None and is_observed:
            observer.replicated(replica, follower_id, before, in_sync.followers[follower_id].durable_end_offset)
        if in_sync is not None and in_sync.may_change(
            follower_id, replica.high_watermark, replica.epoch_start, replica.log.start_offset
        ):
            self._listeners.follower_progressed(replica)
        if has_moved:
            self.purgatory.moved(replica)

    def append_as_follower(self, replica: Replica, records: Buffer, leader_horizon: int = NOTHING_GONE) -> bool:
        """Take what the leader gave. False when not all of it could be written, or it is not what a leader gives."""
        before = replica.log.end_offset
        is_whole = self._write_as_follower(replica, records, leader_horizon)
        # A disk may have become full between two batches: what it took is there, and nothing is fetched until it is
        # safe as well.
        if replica.log.end_offset > before and replica.offline is None:
            self._metrics.bytes_in += len(records)
            if replica.is_synced or replica.is_flush_due:
                self.sync_rounds.due(replica)
        return is_whole

    def _write_as_follower(self, replica: Replica, records: Buffer, leader_horizon: int) -> bool:
        try:
            if not replica.log.is_begun:
                self.logs.directories.mark(replica)
            replica.append_as_follower(records, self._clock.now_ms(), leader_horizon)
        except OSError as problem:
            what = shortage_of(problem)
            if what is not None:
                self.run_short(what)
            else:
                self.partitions.take_offline(replica, f"write failed: {problem}")
            return False
        except (Corrupt, ValueError) as problem:
            log.error("%s-%d: what its leader gave: %s", replica.topic, replica.partition, problem)
            return False
        return True

    def may_begin_anew(self, replica: Replica, horizon: int) -> bool:
        """Whether a copy that ends below its leader's tombstone horizon may be given up at once. While others count on
        it, it is taken for a damaged one: the controller hears of it first."""
        where = f"it ends at offset {replica.log.end_offset}, and its leader has no tombstones below {horizon} any more"
        if not self.partitions.counts_on_this_copy(replica):
            log.info("%s-%d is fetched anew: %s", replica.topic, replica.partition, where)
            return True
        self.partitions.found_damaged(replica, where)
        return False

    def apply_leader_watermark(self, replica: Replica, high_watermark: int, start_offset: int) -> None:
        """What a follower's leader says is safe, and where its log starts."""
        if replica.apply_leader_watermark(high_watermark, start_offset):
            self.purgatory.moved(replica)

    def cut(self, cuts: Sequence[tuple[Replica, int, bool]]) -> bool:
        """Give up what leaders do not have: each log from an offset on, or (True) all of it, to begin anew there. False
        when that is not possible now: then all are as they were."""
        try:
            self.logs.announce_cuts([(replica.log, 0 if is_reset else offset) for replica, offset, is_reset in cuts])
        except OSError as problem:
            log.warning("logs that differ from their leaders' cannot be cut now: %s", problem)
            return False
        for replica, offset, is_reset in cuts:
            before = replica.high_watermark, replica.log.end_offset
            try:
                was_safe = replica.reset_to(offset) if is_reset else replica.truncate_to(offset)
                self.logs.directories.mark(replica)
            except (OSError, Corrupt) as problem:
                self._half_cut(replica, offset, problem)
                continue
            write_log = log.error if was_safe else log.info
            write_log(
                "%s-%d: ended at offset %d (safe to %d), now at %d as its leader %d of epoch %d has it",
                *(replica.topic, replica.partition, before[1], before[0]),
                *(replica.log.end_offset, replica.leader_id, replica.leader_epoch),
            )
            self.purgatory.moved(replica)
        return True

    def _half_cut(self, replica: Replica, offset: int, problem: OSError | Corrupt) -> None:
        what = f"cannot be cut at offset {offset}"
        if isinstance(problem, Corrupt):
            self.partitions.take_offline(replica, f"{what}: {problem}")
        elif shortage_of(problem) is None or replica.topic != METADATA_TOPIC:
            self.partitions.open_anew(replica, Interrupted(what, problem))
        else:  # the quorum sees where its log ends now, and cuts it again when that is safe
            self.sync_rounds.due(replica)

    # --- reading

    def read_cached(self, plan: Slice) -> Outgoing | Unread | None:
        if plan.length >= SENT_UNREAD_BYTES and not plan.needs_check and plan.file.is_in_memory(plan.position):
            return FileSlice(plan.file, plan.position, plan.length)
        try:
            return plan.file.read_cached(plan.position, plan.length)
        except OSError as problem:
            return Unread(problem)

    async def wait_for_read(self, plan: Slice) -> bytes | Unread:
        try:
            return await self._files.read_later(plan.file, plan.position, plan.length)
        except OSError as problem:
            return Unread(problem)

    def check_read(self, replica: Replica, plan: Slice, content: Outgoing | Unread) -> Code:
        if replica.log.was_cut_since(plan):  # while it was being read, so another leads: what came is of no one history
            return Code.NOT_LEADER_OR_FOLLOWER
        is_whole = not isinstance(content, Unread) and len(content) == plan.length
        if not is_whole and plan.next_offset <= replica.log.start_offset:
            return Code.OFFSET_OUT_OF_RANGE  # deleted while it was being read
        if not is_whole and not replica.log.is_current(plan):
            return Code.NONE  # compacted while it was being read: nothing for now, and the client asks again
        try:
            if isinstance(content, Unread):
                raise content.problem
            if not isinstance(content, FileSlice) and (plan.needs_check or not is_whole):
                replica.log.check_slice(plan, content)
        except (Corrupt, OSError) as problem:
            return self.read_failed(replica, problem)
        self._metrics.bytes_out += plan.length
        self.read_shortage = None
        return Code.NONE

    def read_failed(self, replica: Replica, problem: Corrupt | OSError) -> Code:
        """The log cannot say where the bytes are, or they cannot be read: what to answer."""
        what = shortage_of(problem)
        if what is not None:  # nothing is known to be wrong with it: it can be read when there is some again
            if self.read_shortage != what:
                log.error("%s: what has to be read is refused until there is more", what)
            self.read_shortage = what
        elif isinstance(problem, Corrupt):
            self.partitions.found_damaged(replica, f"read failed: {problem}")
        else:
            self.partitions.take_offline(replica, f"read failed: {problem}")
        return Code.KAFKA_STORAGE_ERROR

    def run_short(self, what: str) -> None:
        """Something has run out. Said once, until a batch is taken again."""
        if self.shortage != what:
            log.error("%s: batches are refused until there is more", what)
        self.shortage = what

    # --- files

    async def store_starts(self) -> None:
        """Put on disk where each log starts now. Raises Refused (KAFKA_STORAGE_ERROR)."""
        await self.logs.store_starts()

    def log_directory(self) -> str:
        return self.logs.data_dir

    def disk_bytes(self) -> tuple[int, int]:
        """Total and free bytes of the disk below the data directory."""
        return self.logs.disk_bytes()

    async def sync_alone(self, file: File) -> None:
        """Sync a file that no acknowledgement waits for. Raises OSError."""
        (problem,) = await self._files.sync_later([file])
        if problem is not None:
            raise problem
