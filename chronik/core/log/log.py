"""A partition's log: segments end to end, with the epochs and producers that their batches tell of.

The log knows two of a partition's three offsets, `start_offset` and `end_offset`, and how far it is on disk for
good, `synced_offset`; the high watermark is the replica's. A batch goes in by one write. What is refused is refused
before it, what follows from it cannot fail, so that an I/O error leaves the log as it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from contextlib import closing
from typing import Any

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.log import aborted, snapshot
from chronik.core.log.aborted import AbortedTransaction
from chronik.core.log.admission import admit
from chronik.core.log.appended import Appended
from chronik.core.log.cleaned_transactions import CleanedTransactions
from chronik.core.log.compaction import KEYS_MAX, Rewritten, clean, cleanable, dirtiness, finish_swaps, swap_in
from chronik.core.log.epochs import CHECKPOINT_NAME, Epochs
from chronik.core.log.history import (
    Snapshots,
    load_aborted,
    load_epochs,
    outcome_of,
    rebuild_aborted,
    replay,
    take_in,
)
from chronik.core.log.horizon import HORIZON_NAME, NOTHING_GONE, TombstoneHorizon
from chronik.core.log.producers import Duplicate, Producers, VerificationGuard
from chronik.core.log.recovery import NOTHING_TO_REPORT, RecoveryReport, Scanned, rescan
from chronik.core.log.recovery_point import RecoveryPoint
from chronik.core.log.retention import expired
from chronik.core.log.scan import sound_batches
from chronik.core.log.segment import SMALL_BYTES, Segment, Slice
from chronik.core.log.slice_check import check_slice
from chronik.core.log.times import SeenLog, TimedOffset, newest_record, record_at_time, sought
from chronik.core.log.transactions import EndedTransaction
from chronik.core.ports import File, Files
from chronik.core.records.batch import TRANSACTIONAL_BIT, BatchHeader, read_header, stamp, stamp_append_time
from chronik.core.records.control import Marker, build_marker
from chronik.core.records.steps import Steps, Work
from chronik.core.types import NO_TIMESTAMP, UNKNOWN_OFFSET, Buffer

UNKNOWN_END = 2**63 - 1


class Log:
    """One partition's batches on disk."""

    __slots__ = (
        "_epochs_safe_at", "_files", "_segments", "_snapshots", "_stored_end_offset", "_to_sync", "clean_offset",
        "config", "cuts", "directory", "end_offset", "epochs", "horizon", "producers", "recovery", "recovery_point",
        "start_offset", "synced_offset",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, config: TopicConfig) -> None:
        self.directory = directory
        self.config = config
        self.start_offset = 0
        self.end_offset = 0
        self.synced_offset = 0
        self.clean_offset = 0  # it has been compacted below this: of each key one record is left there
        self.cuts = 0  # how often its end was cut off: a sync that began before says nothing of what stands there now
        self.epochs = Epochs()
        self.horizon = TombstoneHorizon(files, directory)
        self.producers = Producers()
        self.recovery: RecoveryReport = NOTHING_TO_REPORT
        self._files = files
        self._segments: list[Segment] = []  # none until the first append
        self._snapshots = Snapshots(files, directory)
        self._epochs_safe_at = 0  # their checkpoint is on disk once everything below this offset is
        self._stored_end_offset = 0  # up to here indexes and producers are on disk
        self.recovery_point = RecoveryPoint()
        # Files besides the active segment's, each with the offset that a sync must have reached to include it.
        self._to_sync: list[tuple[int, File]] = []

    # --- opening and closing

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: TopicConfig,
        now_ms: int,
        *,
        was_clean: bool,
        synced_offset: int = 0,
        log_start_offset: int = 0,
        clean_offset: int = 0,
    ) -> Log:
        """The log in this directory as the last process left it; `log.recovery` says what had to be mended."""
        log = cls(files, directory, config)
        log.recovery_point = RecoveryPoint(synced_offset)
        names = files.names(directory)
        if finish_swaps(files, directory, names):
            names = files.names(directory)
        bases = [int(name[:-4]) for name in names if name.endswith(".log")]
        log._segments = [
            Segment.inherit(files, directory, base_offset, end_offset, config.index_interval_bytes, now_ms)
            for base_offset, end_offset in zip(bases, [*bases[1:], UNKNOWN_END], strict=False)
        ]
        for segment in log._segments:
            if segment.path.removeprefix(f"{directory}/") + aborted.SUFFIX in names:
                segment.aborted = None
        if log._segments:
            log._load(names, was_clean, synced_offset, log_start_offset)
        safe_offset = max(synced_offset, log_start_offset)
        if safe_offset > log.end_offset:
            raise Corrupt(directory, f"the log ends at offset {log.end_offset}, yet all below {safe_offset} was safe")
        # Outside of this log it is of another one, and all of this one is dirty.
        if log.start_offset <= clean_offset <= log.end_offset:
            log.clean_offset = clean_offset
        return log

    def _load(self, names: list[str], was_clean: bool, synced_offset: int, log_start_offset: int) -> None:
        self._snapshots.offsets = snapshot.offsets_of(names)
        active = self._segments[-1]
        scanned = Scanned()
        if was_clean:
            try:
                active.load_tail()
            except Corrupt:  # not as clean as it was said to be
                was_clean = False
                active.size = active.inherited_bytes
        # What was offline had no part in an orderly stop: above its recovery point nothing is sure to be on disk.
        if was_clean and (self._snapshots.latest != active.end_offset or synced_offset < active.end_offset):
            was_clean = False
        if not was_clean:
            scanned = rescan(self._files, self._segments, synced_offset, self.config.may_have_gaps, log_start_offset)
        self.end_offset = self._segments[-1].end_offset
        self.start_offset = max(log_start_offset, self._segments[0].base_offset)
        if HORIZON_NAME in names:
            self.horizon.load(self.end_offset)
        self.synced_offset = self.end_offset if was_clean else max(min(synced_offset, self.end_offset), 0)
        self._stored_end_offset = self.end_offset if was_clean else UNKNOWN_OFFSET
        for segment in scanned.closed:
            self._to_sync.append((segment.end_offset, segment.file))
        where = self._files, self.directory, self._segments, self.start_offset, self.end_offset
        self.epochs, mended = load_epochs(*where, was_clean=was_clean, has_gaps=self.config.may_have_gaps)
        if self.epochs.entries and not self.config.may_have_gaps:
            self.start_offset = max(self.start_offset, self.epochs.entries[0].start_offset)
        self._epochs_safe_at = 0 if was_clean and not mended else UNKNOWN_END
        if scanned.dropped:  # with their directory synced they stay away: else they could be back where the log is then
            self._store_epochs(self.end_offset, sync=True)
        mended += self._load_producers()
        # The files of what was read anew may be behind it, or ahead: of an end that was cut off, or never synced.
        rebuild_aborted(self._segments, [one for one in scanned.relearned if one.has_markers], self._snapshots)
        for segment in scanned.relearned:
            segment.aborted = segment.aborted or []
        for segment in scanned.closed:
            self._to_sync += [(segment.end_offset + 1, file) for file in segment.write_indexes()]
        self.recovery = RecoveryReport(
            was_clean, scanned.batches, scanned.cut_bytes, scanned.cut_from_offset, (*mended, *self.rebuilt)
        )

    def _load_producers(self) -> list[str]:
        self.producers, offset, damaged = self._snapshots.load(self._segments[0].base_offset, self.end_offset)
        replay(self._segments, self.producers, max(offset, self._segments[0].base_offset))
        return damaged

    @property
    def rebuilt(self) -> tuple[str, ...]:
        """Index files that were found missing or damaged since this log was opened, and made anew."""
        return tuple(path for segment in self._segments for path in segment.rebuilt)

    def close(self) -> None:
        """Put everything on disk for good, so that the next process can open this log without reading it."""
        if not self._segments:
            return
        active = self._segments[-1]
        if self._stored_end_offset != self.end_offset:
            files, _ = self.unsynced()
            files += active.write_indexes() if active.size > SMALL_BYTES else active.store_aborted()
            for file in files:
                file.sync()
                file.close()
            # Should it be lost in a power cut, the next process has more to read, and that is all.
            self._snapshots.write(self.end_offset, self.producers).close()
            self._to_sync.clear()
            self._stored_end_offset = self.synced_offset = self.end_offset
        if not self.epochs.is_stored or self._epochs_safe_at > self.synced_offset:
            self._store_epochs(self.end_offset, sync=True)
        for segment in self._segments:
            segment.file.close()

    def abandon(self) -> None:
        """Let go of the files and store nothing: what is in them is not wanted any more. An answer on its way may still
        name them, and their paths may soon be those of a new topic's."""
        for file in (*(segment.file for segment in self._segments), *(file for _, file in self._to_sync)):
            file.retire()

    # --- writing

    def append(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        """Take a producer's batch, which `batch.accept` has checked: give it offsets and write it. The first batch of a
        transaction needs the guard that its verification began with.

        Who sent it and what it is, the write, and what is remembered of it are one step: nothing comes between.
        """
        config = self.config
        admit(header, config, now_ms)
        if header.producer_id >= 0:
            match outcome_of(self._segments, self.producers, header):
                case Duplicate(base_offset, last_offset, timestamp):
                    time_ms = timestamp if config.is_timed_by_log else NO_TIMESTAMP
                    return Appended(base_offset, last_offset, time_ms, is_new=False)
            if header.attributes & TRANSACTIONAL_BIT:
                self.producers.check_verified(header, guard)
        timestamp, append_time_ms = header.max_timestamp, NO_TIMESTAMP
        if config.is_timed_by_log:
            stamp_append_time(batch, header.attributes, now_ms)
            timestamp = append_time_ms = now_ms
        base_offset, last_offset = self._write(batch, header, timestamp, leader_epoch, now_ms)
        if header.producer_id >= 0:
            self.producers.advance(header, base_offset, timestamp)
        return Appended(base_offset, last_offset, append_time_ms)

    def append_of_coordinator(
        self,
        batch: bytearray,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        """Take a batch that a coordinator on this node has made in the name of a transactional producer, which numbers
        no batches here: its transaction and its epoch count."""
        self.producers.check_epoch(header.producer_id, header.producer_epoch)
        self.producers.check_verified(header, guard)
        base_offset, last_offset = self._write(batch, header, header.max_timestamp, leader_epoch, now_ms)
        self.producers.advance(header, base_offset, header.max_timestamp)
        return Appended(base_offset, last_offset)

    def append_marker(
        self,
        marker: Marker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """Write that a producer's transaction has ended. Not a second time where that can be seen."""
        if not self.producers.check_marker(producer_id, producer_epoch, marker, transaction_version):
            return Appended(self.end_offset - 1, self.end_offset - 1, is_new=False)
        self._load_aborted_for_marker()
        batch = build_marker(marker, producer_id, producer_epoch, now_ms)
        header = read_header(batch)
        base_offset, last_offset = self._write(batch, header, now_ms, leader_epoch, now_ms)
        self._ended(self.producers.end_transaction(header, marker, base_offset, transaction_version))
        return Appended(base_offset, last_offset)

    def _write(
        self, batch: bytearray | memoryview, header: BatchHeader, timestamp: int, leader_epoch: int, now_ms: int
    ) -> tuple[int, int]:
        """Give it the next offsets, and write it. Returns them."""
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp(batch, base_offset, leader_epoch)
        segment = self._segment_for(len(batch), last_offset, timestamp, now_ms)
        if leader_epoch != self.epochs.latest or not self.epochs.is_stored:
            self._begin_epoch(leader_epoch, base_offset)
        segment.append(batch, base_offset, last_offset, timestamp)
        self.end_offset = last_offset + 1
        return base_offset, last_offset

    def _ended(self, ended: EndedTransaction | None) -> None:
        """Note the transaction that a marker at the end of the log has ended, if it was aborted."""
        if ended is not None and not ended.is_commit:
            self._aborted_of(self._segments[-1]).append(AbortedTransaction.of(ended))

    def _load_aborted_for_marker(self) -> None:
        """Before it is written: what follows from a marker in the log must not fail, or the abort would be lost."""
        for active in self._segments[-1:]:
            self._aborted_of(active)

    def _aborted_of(self, segment: Segment) -> list[AbortedTransaction]:
        return load_aborted(self._files, self._segments, segment, self._snapshots)

    def append_as_follower(self, batches: Buffer, now_ms: int, leader_horizon: int = NOTHING_GONE) -> Appended:
        """Take batches as the leader has them. They must be sound, and begin where this log ends. What the leader's
        tombstones took away, an empty log takes over with them."""
        is_empty = self.end_offset == self.start_offset
        found = list(sound_batches(batches, self.directory, floor_offset=0 if is_empty else self.end_offset))
        if not found:
            raise ValueError("no batches")
        first = found[0].header
        if is_empty:
            self.horizon.advance(leader_horizon)
        if is_empty and first.base_offset < self.end_offset <= first.last_offset:
            self._begin_at(first.base_offset, now_ms)  # the leader's log starts in the middle of a batch
        if first.base_offset != self.end_offset and not self.config.may_have_gaps:
            raise ValueError(f"batches from offset {first.base_offset} on for a log that ends at {self.end_offset}")
        view = memoryview(batches)
        for position, header in found:
            batch = view[position : position + header.size_bytes]
            if header.is_control:
                self._load_aborted_for_marker()
            segment = self._segment_for(len(batch), header.last_offset, header.max_timestamp, now_ms)
            try:
                if header.leader_epoch != self.epochs.latest or not self.epochs.is_stored:
                    self._begin_epoch(header.leader_epoch, header.base_offset)
                segment.append(batch, header.base_offset, header.last_offset, header.max_timestamp)
            except OSError:
                # Of an epoch without a batch nothing is to be reported: a voter would win elections by it.
                self.epochs.truncate(self.end_offset)
                raise
            self.end_offset = header.next_offset
            self._ended(take_in(self.producers, header, batch))
        return Appended(first.base_offset, self.end_offset - 1)

    def _segment_for(self, size: int, last_offset: int, timestamp: int, now_ms: int) -> Segment:
        """The segment that takes this batch: the active one, or a new one if that is full or old enough."""
        config = self.config
        if not self._segments:
            self._segments.append(self._new_segment(now_ms))
        active = self._segments[-1]
        has_room = active.has_room_for(size, last_offset, config.segment_bytes, config.segment_index_bytes)
        if has_room and active.age_ms(timestamp, now_ms) <= config.roll_ms - config.segment_jitter_ms:
            return active
        return self._roll(now_ms)

    def _roll(self, now_ms: int) -> Segment:
        """Close the active segment and begin the next, whose file comes with its first batch."""
        active, end_offset = self._segments[-1], self.end_offset
        active.file.truncate(active.size)  # what a failed append left would stand between this segment and the next
        beside = [*active.write_indexes(), self._snapshots.write(end_offset, self.producers)]
        # Only a sync that has seen a later batch has surely seen them as they are now. An earlier process may have cut
        # the segment: if that is not synced, a power cut brings back what was cut off, before what took its place.
        self._to_sync += [(end_offset + 1, file) for file in (active.file, *beside)]
        segment = self._new_segment(now_ms)
        self._segments.append(segment)
        return segment

    def _new_segment(self, now_ms: int) -> Segment:
        return Segment(self._files, self.directory, self.end_offset, self.config.index_interval_bytes, now_ms)

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        """Write an epoch down before its first batch. Should this be lost, the batches still tell it."""
        self.epochs.assign(epoch, offset)
        self._store_epochs(offset + 1)
        # Synced with that batch, in one round with everyone else's: at the stop of 10,000 partitions, nothing is left.
        self._epochs_safe_at = offset + 1
        self._to_sync.append((offset + 1, self._files.open(f"{self.directory}/{CHECKPOINT_NAME}")))

    def _store_epochs(self, end_offset: int, *, sync: bool = False) -> None:
        content = self.epochs.encode(end_offset)
        self._files.replace(f"{self.directory}/{CHECKPOINT_NAME}", content, sync=sync)
        self.epochs.is_stored = True
        self._epochs_safe_at = 0 if sync else UNKNOWN_END

    # --- making it safe

    def unsynced(self) -> tuple[list[File], int]:
        """The files to sync, and the offset below which everything is then safe."""
        files = [file for _, file in self._to_sync]
        if self._segments and self._segments[-1].size and self.end_offset > self.synced_offset:
            files.append(self._segments[-1].file)
        return files, self.end_offset

    def sync_with_next(self, file: File) -> None:
        """Have a file beside the log synced together with the next batch."""
        if all(file.path != known.path for _, known in self._to_sync):
            self._to_sync.append((self.end_offset + 1, file))

    def is_on_disk(self, end_offset: int) -> bool:
        """Everything below was synced. False when that counts only after the recovery point has been stored."""
        self.recovery_point.offset = end_offset
        return self.recovery_point.covers(self._segments)

    def mark_synced(self, end_offset: int) -> None:
        """Everything below `end_offset` has been synced; not to be said of a sync that began before a cut (`cuts`)."""
        if end_offset > self.synced_offset:
            self.synced_offset = min(end_offset, self.end_offset)
        if self._to_sync:
            for needed, file in self._to_sync:  # segments may be read; what stands beside them is done with
                if needed <= self.synced_offset and not file.path.endswith(".log"):
                    file.close()
            self._to_sync = [(needed, file) for needed, file in self._to_sync if needed > self.synced_offset]

    # --- reading

    def read(self, start_offset: int, bound_offset: int, max_bytes: int, *, at_least_one: bool) -> Slice | None:
        """Which bytes hold the batches from `start_offset` on. None when there are none below `bound_offset`."""
        if start_offset >= bound_offset or start_offset >= self.end_offset:
            return None
        if start_offset < self.start_offset:
            raise Refused(Code.OFFSET_OUT_OF_RANGE, f"the log starts at offset {self.start_offset}")
        active = self._segments[-1]
        if active.remembers(start_offset):
            return active.plan_recent(start_offset, bound_offset, max_bytes, at_least_one)
        place = self._place_of(start_offset)
        for segment in self._segments[place:]:
            found = segment.locate(start_offset) if segment.size else None
            if found is None:
                if segment.end_offset > start_offset and not self.config.may_have_gaps:
                    problem = f"no batch for offset {start_offset}, the log ends at {self.end_offset}"
                    raise Corrupt(segment.file.path, problem)
                continue
            return segment.plan(found, bound_offset, max_bytes, at_least_one)
        return None

    def aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with anything between these offsets, their markers wherever they are."""
        found: list[AbortedTransaction] = []
        for segment in self._segments[self._place_of(start_offset) :]:
            if segment.aborted == []:
                continue
            for entry in self._aborted_of(segment):
                if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    def first_undecided(self, high_watermark: int) -> int | None:
        """Where the earliest transaction begins that has no marker below the high watermark. What is below the start of
        the log is gone, and holds back nothing."""
        first_offset = self.producers.undecided.first_undecided(high_watermark)
        return None if first_offset is None else max(first_offset, self.start_offset)

    def _place_of(self, offset: int) -> int:
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def check_slice(self, plan: Slice, content: Buffer) -> None:
        """Raise Corrupt unless these bytes are the batches that were planned, as they were written."""
        check_slice(plan, content, self.epochs, self.start_offset, has_gaps=self.config.may_have_gaps)

    def offset_for_time(self, timestamp: int, bound_offset: int) -> Steps[TimedOffset | None]:
        """The first record of this time or later that lies below `bound_offset`."""
        return sought(self._seen, lambda segments, start: record_at_time(segments, timestamp, start, bound_offset))

    def offset_of_max_timestamp(self, bound_offset: int) -> Steps[TimedOffset | None]:
        """The first of the records with the latest time below `bound_offset`."""
        return sought(self._seen, lambda segments, start: newest_record(segments, start, bound_offset))

    def _seen(self) -> SeenLog:
        return SeenLog(tuple(self._segments), self.start_offset, self.cuts)

    @property
    def is_begun(self) -> bool:
        """Whether it has a file."""
        return bool(self._segments)

    def show_indexes(self) -> None:
        """Put the indexes of the active segment on disk, for tools that look at it."""
        for active in self._segments[-1:]:
            active.show_indexes()

    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    # --- letting go

    def advance_start(self, offset: int) -> None:
        """Move the log start up. The files below it go later (`remove_below`)."""
        if not self.start_offset <= offset <= self.end_offset:
            known = f"the log has {self.start_offset} to {self.end_offset}"
            raise Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {offset}, {known}")
        self.start_offset = offset
        self.epochs.advance(offset)

    def expire(self, now_ms: int, high_watermark: int) -> list[str]:
        """Move the log start over the segments that retention lets go, and say which and why."""
        gone = expired(self._segments, self.config, self.start_offset, high_watermark, now_ms)
        self.advance_start(gone[-1][0].end_offset if gone else self.start_offset)
        return [f"{segment.file.path}: {reason}" for segment, reason in gone]

    def remove_below(self, offset: int, now_ms: int) -> int:
        """Remove the segments wholly below the log start and `offset`, and say how many. That start should be on disk:
        a power cut may bring some of the files back, and only a log that starts behind them has no hole then."""
        offset, active = min(offset, self.start_offset), self._segments[-1] if self._segments else None
        gone = [one for one in self._segments if one.end_offset <= offset and (one.size or one is not active)]
        self._remove([segment for segment in gone if segment is not active])
        if active is not None and active in gone:
            # The name of the new file is what tells the next process where the log ended.
            self._files.replace(self._roll(now_ms).file.path, b"")
            self._remove([active])
        return len(gone)

    def _remove(self, segments: list[Segment]) -> None:
        try:
            for segment in segments:  # the oldest first, so that a crash leaves no hole
                segment.remove()
                self._segments.remove(segment)
                self._forget_unsynced([segment])
        finally:  # as far as it came
            if self._segments:
                self.start_offset = max(self.start_offset, self._segments[0].base_offset)
            self.epochs.advance(self.start_offset)

    def dirtiness(self, now_ms: int, stable_offset: int) -> float:
        """The share of it that is to be compacted; 0 while that is not due."""
        return dirtiness(self._segments, self.config, self.clean_offset, stable_offset, now_ms)

    def compact(
        self, now_ms: int, stable_offset: int, tombstones_needed_from: int = UNKNOWN_END, keys_max: int = KEYS_MAX
    ) -> Generator[File | Work[Any] | None, None, None]:
        """Drop records that later ones with the same key replace, in short steps: the caller lets others run between.

        A file that a step gives must be synced before the next; a `Work` may be done on a thread. A read that was
        planned before may fail after it (`is_current`). A cut ends it: what it wrote of old batches must not come back.
        """
        cuts = self.cuts
        if not (run := cleanable(self._segments, self.config, self.clean_offset, stable_offset, now_ms)):
            return
        last_offsets = frozenset(p.batches[-1].last_offset for p in self.producers.states() if p.batches)
        transactions = CleanedTransactions(
            self.aborted_between(run[0].base_offset, run[-1].end_offset),
            frozenset((p.producer_id, p.epoch) for p in self.producers.states() if not p.batches),
        )
        settings = (self.config, now_ms, tombstones_needed_from, keys_max, transactions)
        with closing(clean(self._files, run, self.clean_offset, last_offsets, *settings)) as steps:
            for step in steps:
                if isinstance(step, Rewritten):
                    self.horizon.advance(step.tombstones_gone_below)
                    new = swap_in(self._files, self._segments, step, now_ms)
                    self._forget_unsynced(step.segments)
                    self._to_sync += [(new.end_offset + 1, file) for file in new.write_indexes()]
                    self.clean_offset = max(self.clean_offset, min(new.end_offset, step.clean_offset))
                    run = [segment for segment in run if segment not in step.segments]
                yield None if isinstance(step, Rewritten) else step
                if self.cuts != cuts or any(segment not in self._segments for segment in run):
                    return  # a cut or retention was quicker

    def is_current(self, plan: Slice) -> bool:
        """Whether what was planned can still be read: retention or compaction may have taken the file away."""
        return any(segment.file is plan.file for segment in self._segments)

    def was_cut_since(self, plan: Slice) -> bool:
        """Whether the end of its file was cut off after it was planned: other batches may stand there now, or none."""
        if not self.cuts or not self._segments:
            return False
        segment = self._segments[self._place_of(plan.start_offset)]
        return segment.file is plan.file and segment.cuts != plan.cuts

    def expect_cut(self, end_offset: int) -> None:
        """What lies above is to go. That must be on disk before it does: to end below `synced_offset` is damage."""
        self.synced_offset = min(self.synced_offset, end_offset)
        self.recovery_point.cut(end_offset)
        self.start_offset = min(self.start_offset, end_offset)
        self.clean_offset = min(self.clean_offset, end_offset)
        self.cuts += 1

    def truncate_to(self, end_offset: int) -> None:
        """Cut off everything from `end_offset` on, and the batch it lies in: a follower whose leader differs does."""
        if end_offset >= self.end_offset:
            return
        if end_offset < max(self.start_offset, self._segments[0].base_offset):
            self.reset_to(end_offset)
            return
        place = self._place_of(end_offset)
        self._aborted_of(self._segments[place])  # before the markers that it is held against are gone
        try:
            while len(self._segments) > place + 1:
                self._segments[-1].remove()
                self._forget_unsynced([self._segments.pop()])
            self._segments[-1].truncate(end_offset)
        finally:  # as far as it came
            self.end_offset = end_offset = self._segments[-1].end_offset
            self.expect_cut(end_offset)  # which may be below the start, in the middle of a batch: then all is gone
            self._stored_end_offset = UNKNOWN_OFFSET
            self._to_sync = [(min(needed, end_offset), file) for needed, file in self._to_sync]
            self.epochs.truncate(end_offset)
        self._store_epochs(end_offset, sync=True)
        self.horizon.cut(end_offset)
        self._load_producers()

    def reset_to(self, offset: int, now_ms: int = 0) -> None:
        """Give up everything and begin anew at `offset`: a follower whose leader's log starts there does."""
        self._begin_at(offset, now_ms)
        self.start_offset, self.clean_offset, self._stored_end_offset = offset, 0, UNKNOWN_OFFSET
        self._snapshots.drop_above(UNKNOWN_OFFSET)
        self.producers, self.epochs = Producers(), Epochs()
        self._store_epochs(offset, sync=True)
        self.horizon.cut(NOTHING_GONE)

    def _begin_at(self, offset: int, now_ms: int) -> None:
        """Let go of all segments and have an empty one at `offset`."""
        self._forget_unsynced(self._segments)
        while self._segments:  # the oldest first, so that a crash leaves no hole
            self._segments[0].remove()
            self._segments.pop(0)
        self.end_offset = self.synced_offset = offset
        self.recovery_point.cut(offset)
        self.cuts += 1
        self._to_sync = [(min(needed, offset + 1), file) for needed, file in self._to_sync]
        self._segments.append(self._new_segment(now_ms))
        # The name of the file is what tells the next process where the log begins.
        self._files.replace(self._segments[0].file.path, b"")

    def _forget_unsynced(self, segments: list[Segment]) -> None:
        """Files that are to go need no sync."""
        paths = tuple(segment.path for segment in segments)
        if paths and self._to_sync:
            self._to_sync = [(needed, file) for needed, file in self._to_sync if not file.path.startswith(paths)]
