"""What is done with the partitions of this node (`PartitionRegistry` has them): appending, following, reading.

A disk that is full, or descriptors or memory that ran out, refuse a batch or a read, and it goes on when there is some
again. A write, sync or read that fails otherwise, and bytes that are not what was written, take that one replica
offline; the node and every other partition go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from chronik.core.errors import Code, Corrupt, Interrupted, Refused, shortage_of
from chronik.core.log.appended import Appended
from chronik.core.log.horizon import NOTHING_GONE
from chronik.core.log.log import Log
from chronik.core.log.producers import VerificationGuard
from chronik.core.log.segment import Slice
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import SENT_UNREAD_BYTES, File, FileSlice, Outgoing, Unread
from chronik.core.records.control import MARKER_BYTES, Marker
from chronik.core.replica.replica import Replica
from chronik.core.types import Buffer, TopicPartition
from chronik.node.replication.partition_registry import PartitionRegistry

log = logging.getLogger(__name__)


class Replicas(PartitionRegistry):
    """This node's replicas, and what is written to and read from them."""

    # --- writing and reading

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
                self._directories.mark(replica)
            appended = write()
        except OSError as problem:
            what = shortage_of(problem)
            if what is not None:
                self.run_short(what)
                raise Refused(Code.KAFKA_STORAGE_ERROR, what) from problem
            self.take_offline(replica, f"write failed: {problem}")
            raise Refused(Code.KAFKA_STORAGE_ERROR, f"write failed: {problem}") from problem
        except Corrupt as problem:  # met while looking up an earlier batch of its producer, or in the index
            self.take_offline(replica, str(problem))
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
            self.commits.due(replica)
        if appended.is_new:
            if not is_synced:
                self.waiting.moved(replica)
            elif replica.in_sync is not None and replica.in_sync.followers:
                self.waiting.appended(replica)
        return appended

    def delete_records(self, replica: Replica, offset: int) -> int:
        start_offset = replica.delete_records(offset)
        self.waiting.appended(replica)  # followers hear of it at once: what is gone does not come back with one of them
        return start_offset

    def expire(self, replica: Replica, now_ms: int) -> list[str]:
        """Have the log start behind what retention lets go, and say what that is."""
        expired = replica.log.expire(now_ms, replica.high_watermark)
        if expired:
            self.waiting.appended(replica)  # its followers need not keep them either
            for told in self.on_start:  # its leader may wait to hear that it has let go
                told(replica)
        return expired

    # --- leader and follower

    def follower_starts_at(self, replica: Replica, follower_id: int, log_start: int) -> None:
        """Who waits for records to be gone everywhere is told."""
        if replica.in_sync is not None and replica.in_sync.followers[follower_id].log_start != log_start:
            replica.in_sync.followers[follower_id].log_start = log_start
            self.waiting.appended(replica)

    def follower_fetched(self, replica: Replica, follower_id: int, fetch_offset: int, broker_epoch: int) -> None:
        in_sync, steps = replica.in_sync, None if self.trace is None else self.trace.steps
        before = in_sync.followers[follower_id].safe_end if in_sync is not None and steps is not None else -1
        has_moved = replica.follower_fetched(follower_id, fetch_offset, self._clock.monotonic_ms(), broker_epoch)
        if in_sync is not None and steps is not None:
            steps.replicated(replica, follower_id, before, in_sync.followers[follower_id].safe_end)
        if in_sync is not None and in_sync.may_change(
            follower_id, replica.high_watermark, replica.epoch_start, replica.log.start_offset
        ):
            for told in self.on_progress:
                told(replica)
        if has_moved:
            self.waiting.moved(replica)

    def append_as_follower(self, replica: Replica, records: Buffer, leader_horizon: int = NOTHING_GONE) -> bool:
        """Take what the leader gave. False when not all of it could be written, or it is not what a leader gives."""
        before = replica.log.end_offset
        is_whole = self._write_as_follower(replica, records, leader_horizon)
        # A disk may have become full between two batches: what it took is there, and nothing is fetched until it is
        # safe as well.
        if replica.log.end_offset > before and replica.offline is None:
            self._metrics.bytes_in += len(records)
            if replica.is_synced or replica.is_flush_due:
                self.commits.due(replica)
        return is_whole

    def _write_as_follower(self, replica: Replica, records: Buffer, leader_horizon: int) -> bool:
        try:
            if not replica.log.is_begun:
                self._directories.mark(replica)
            replica.append_as_follower(records, self._clock.now_ms(), leader_horizon)
        except OSError as problem:
            what = shortage_of(problem)
            if what is not None:
                self.run_short(what)
            else:
                self.take_offline(replica, f"write failed: {problem}")
            return False
        except (Corrupt, ValueError) as problem:
            log.error("%s-%d: what its leader gave: %s", replica.topic, replica.partition, problem)
            return False
        return True

    def may_begin_anew(self, replica: Replica, horizon: int) -> bool:
        """Whether a copy that ends below its leader's tombstone horizon may be given up at once. While others count on
        it, it is taken for a damaged one: the controller hears of it first."""
        where = f"it ends at offset {replica.log.end_offset}, and its leader has no tombstones below {horizon} any more"
        placed = self.placed(replica)
        if placed is None or self._node_id not in (*placed.in_sync, *placed.eligible):
            log.info("%s-%d is fetched anew: %s", replica.topic, replica.partition, where)
            return True
        self._damaged[replica.topic, replica.partition] = None
        self.take_offline(replica, where)
        return False

    def apply_leader_watermark(self, replica: Replica, high_watermark: int, start_offset: int) -> None:
        """What a follower's leader says is safe, and where its log starts."""
        if replica.apply_leader_watermark(high_watermark, start_offset):
            self.waiting.moved(replica)

    def cut(self, cuts: Sequence[tuple[Replica, int, bool]]) -> bool:
        """Give up what leaders do not have: each log from an offset on, or (True) all of it, to begin anew there. False
        when that is not possible now: then all are as they were."""
        try:
            self.announce_cuts([(replica.log, 0 if is_reset else offset) for replica, offset, is_reset in cuts])
        except OSError as problem:
            log.warning("logs that differ from their leaders' cannot be cut now: %s", problem)
            return False
        for replica, offset, is_reset in cuts:
            before = replica.high_watermark, replica.log.end_offset
            try:
                was_safe = replica.reset_to(offset) if is_reset else replica.truncate_to(offset)
                self._directories.mark(replica)
            except (OSError, Corrupt) as problem:
                self._half_cut(replica, offset, problem)
                continue
            told = log.error if was_safe else log.info
            told(
                "%s-%d: ended at offset %d (safe to %d), now at %d as its leader %d of epoch %d has it",
                *(replica.topic, replica.partition, before[1], before[0]),
                *(replica.log.end_offset, replica.leader_id, replica.leader_epoch),
            )
            self.waiting.moved(replica)
        return True

    def _half_cut(self, replica: Replica, offset: int, problem: OSError | Corrupt) -> None:
        what = f"cannot be cut at offset {offset}"
        if isinstance(problem, Corrupt):
            self.take_offline(replica, f"{what}: {problem}")
        elif shortage_of(problem) is None or replica.topic != METADATA_TOPIC:
            self.open_anew(replica, Interrupted(what, problem))
        else:  # the quorum sees where its log ends now, and cuts it again when that is safe
            self.commits.due(replica)

    def open_anew(self, replica: Replica, problem: OSError | Interrupted) -> None:
        """A change of its files stopped half way: it is opened anew as after a crash, if only something ran out."""
        cause = problem.problem if isinstance(problem, Interrupted) else problem
        if shortage_of(cause) is None:
            self.take_offline(replica, str(problem))
            return
        name = TopicPartition(replica.topic, replica.partition)
        self._checkpoints.remember(replica)
        self._let_go(replica, Code.KAFKA_STORAGE_ERROR)
        self._let_go_of.add(name)
        self._failed_ids[name] = replica.topic_id
        self._not_opened(name, cause)

    def announce_cuts(self, cuts: Sequence[tuple[Log, int]]) -> None:
        """Have it on disk that these logs are about to end there: as it was written last, they would be taken for
        damaged. Raises OSError: then all are as they were."""
        known = [(one, one.synced_offset, one.start_offset) for one, _ in cuts]
        for one, offset in cuts:
            one.expect_cut(offset)
        try:
            self._checkpoints.write(self.held())
        except OSError:
            for one, synced_offset, start_offset in known:
                one.synced_offset, one.start_offset = synced_offset, start_offset
            raise

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

    def stored_start(self, replica: Replica) -> int:
        """Where its log begins at least, after whatever crash."""
        return self._checkpoints.stored_start(TopicPartition(replica.topic, replica.partition))

    async def store_starts(self) -> None:
        try:
            await self._checkpoints.write_later(self.held)
        except OSError as problem:
            raise Refused(Code.KAFKA_STORAGE_ERROR, f"the log start cannot be stored: {problem}") from problem

    async def sync_alone(self, file: File) -> None:
        """Sync a file that no acknowledgement waits for. Raises OSError."""
        (problem,) = await self._files.sync_later([file])
        if problem is not None:
            raise problem
