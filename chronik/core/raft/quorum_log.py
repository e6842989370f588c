"""A log of `core/log`, with its snapshots, as the Raft machine sees it.

A snapshot is a file beside the segments, called by the point it ends at, as Kafka calls it:
`00000000000000000100-0000000003.checkpoint` has all below offset 100, the last of it written in epoch 3. Two are kept,
and the log from the older one on: a node that is a little behind needs records, not a snapshot.

The voters are found by reading the control batches. An epoch without records is -1 to a log and 0 to Raft.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from chronik.core.errors import Corrupt
from chronik.core.log.log import Log
from chronik.core.ports import File, Files
from chronik.core.raft import control_records, snapshot_file
from chronik.core.raft.control_records import VotersRecord
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.quorum import VoterHistory, Voters, VotersAt
from chronik.core.records.batch import BatchHeader, read_header
from chronik.core.types import Buffer

READ_BYTES = 1024 * 1024
SNAPSHOTS_KEPT = 2
PART_SUFFIX = ".part"
_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


def snapshot_name(point: LogPoint) -> str:
    return f"{point.end_offset:020d}-{point.epoch:010d}.checkpoint"


class QuorumLog:
    """The log of the quorum on this node."""

    def __init__(self, log: Log, files: Files, configured: Voters) -> None:
        """Raises Corrupt where neither the log nor a snapshot has what once was."""
        self.log = log
        self._files = files
        self._history = VoterHistory(configured)
        self._addresses: dict[int, dict[int, tuple[str, int]]] = {}  # of the voters, by the offset that says so
        self._snapshots = self._found()  # in order
        while self._snapshots and not self._is_sound(self._snapshots[-1]):
            self._snapshots.pop()
        latest = self.snapshot
        if log.start_offset > (0 if latest is None else latest.end_offset):
            raise Corrupt(log.directory, f"the log begins at {log.start_offset}, and there is no sound snapshot of it")
        if latest is not None:
            if latest.end_offset > log.end_offset:  # it was installed just before a crash
                log.reset_to(latest.end_offset)
            self._voters_of(latest)
        for header, batch in self.batches(0 if latest is None else latest.end_offset, log.end_offset):
            self._note(header, batch)

    # --- as the machine sees it

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def synced_offset(self) -> int:
        return self.log.synced_offset

    @property
    def latest_epoch(self) -> int:
        if self.log.end_offset > self.log.start_offset:
            return max(self.log.epochs.latest, 0)
        return 0 if self.snapshot is None else self.snapshot.epoch

    @property
    def voters(self) -> VotersAt:
        return self._history.latest

    @property
    def voter_addresses(self) -> Mapping[int, tuple[str, int]]:
        """As the record says that made the voters so."""
        return self._addresses.get(self._history.latest.offset, {})

    @property
    def snapshot(self) -> LogPoint | None:
        return self._snapshots[-1] if self._snapshots else None

    def snapshot_bytes(self, snapshot: LogPoint) -> int | None:
        return self.snapshot_at(snapshot).size() if snapshot in self._snapshots else None

    def end_offset_for(self, epoch: int) -> LogPoint:
        log, entries = self.log, self.log.epochs.entries
        if log.end_offset > log.start_offset and entries and epoch >= entries[0].epoch:
            return LogPoint(*log.epochs.end_offset_for(min(epoch, log.epochs.latest), log.end_offset))
        for point in self._snapshots:
            if point.end_offset == log.start_offset and point.epoch <= epoch:
                return point
        return LogPoint(0, log.start_offset)

    # --- changing it

    def batches(self, start_offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """What was written in between, checked. Raises Corrupt, OSError."""
        log, offset = self.log, start_offset
        while offset < end_offset:
            plan = log.read(offset, end_offset, READ_BYTES, at_least_one=True)
            if plan is None:
                raise Corrupt(log.directory, f"nothing at offset {offset}, though the log ends at {log.end_offset}")
            content = memoryview(plan.file.read(plan.position, plan.length))
            log.check_slice(plan, content)
            position = 0
            while position < len(content):
                header = read_header(content, position)
                yield header, content[position : position + header.size_bytes]
                position += header.size_bytes
            offset = plan.next_offset

    def appended(self, batches: Buffer) -> None:
        """These batches are at the end of the log now, or those of them that are not beyond its end."""
        view, position = memoryview(batches), 0
        while position < len(view):
            header = read_header(view, position)
            if header.base_offset >= self.log.end_offset:
                break
            self._note(header, view[position : position + header.size_bytes])
            position += header.size_bytes

    def truncated(self) -> None:
        """The log has been cut."""
        end_offset = self.log.end_offset
        self._history.truncate(end_offset)
        self._addresses = {offset: known for offset, known in self._addresses.items() if offset < end_offset}

    # --- snapshots

    def snapshot_at(self, point: LogPoint, suffix: str = "") -> File:
        return self._files.open(self.snapshot_path(point, suffix))

    def snapshot_path(self, point: LogPoint, suffix: str = "") -> str:
        return f"{self.log.directory}/{snapshot_name(point)}{suffix}"

    def read_snapshot(self, point: LogPoint) -> bytes:
        return self._files.read_all(self.snapshot_path(point))

    def take_part(self, point: LogPoint, position: int, content: Buffer) -> None:
        """Bytes of a snapshot that is being fetched. Raises OSError."""
        part = self.snapshot_at(point, PART_SUFFIX)
        if part.size() != position:
            part.truncate(position)
        part.append((content,))

    def prepare(self, point: LogPoint) -> None:
        """The snapshot that was fetched is whole: see that it is sound, and on disk. Raises Corrupt, OSError."""
        part = self.snapshot_at(point, PART_SUFFIX)
        part.sync()
        part.close()
        self._files.rename(part.path, self.snapshot_path(point))
        if not self._is_sound(point):
            self._files.remove(self.snapshot_path(point))
            raise Corrupt(self.snapshot_path(point), "the snapshot that was fetched is damaged")

    def install(self, point: LogPoint) -> None:
        """It takes the place of the log. Raises OSError: then half of it may be done, and is done when this is tried
        again."""
        self.log.reset_to(point.end_offset)
        self._remove([other for other in self._snapshots if other != point])
        self._snapshots = [point]
        self._voters_of(point)

    def snapshot_written(self, point: LogPoint) -> None:
        """There is a new snapshot on disk, synced: the log before the one before it is not needed any more."""
        self._snapshots.append(point)
        kept = self._snapshots[-SNAPSHOTS_KEPT:]
        gone, self._snapshots = self._snapshots[:-SNAPSHOTS_KEPT], kept
        if len(kept) == SNAPSHOTS_KEPT and kept[0].end_offset > self.log.start_offset:
            self.log.advance_start(kept[0].end_offset)
            self.log.remove_below(kept[0].end_offset, now_ms=0)
        self._remove(gone)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at this offset."""
        return max(self.log.epochs.at(offset), 0)

    def _found(self) -> list[LogPoint]:
        points: list[LogPoint] = []
        for name in self._files.names(self.log.directory):
            match = _NAME.fullmatch(name)
            if match is not None:
                points.append(LogPoint(int(match[2]), int(match[1])))
            elif name.endswith(PART_SUFFIX):
                self._files.remove(f"{self.log.directory}/{name}")
        return sorted(points, key=lambda point: point.end_offset)

    def _is_sound(self, point: LogPoint) -> bool:
        try:
            snapshot_file.decode(self.read_snapshot(point))
        except Corrupt:
            return False
        return True

    def _voters_of(self, point: LogPoint) -> None:
        record = snapshot_file.decode(self.read_snapshot(point)).voters
        self._history.restart(point.end_offset, None if record is None else _voters(record))
        self._addresses = {} if record is None else {self._history.latest.offset: _addresses(record)}

    def _remove(self, points: list[LogPoint]) -> None:
        for point in points:
            self._files.remove(self.snapshot_path(point))

    def _note(self, header: BatchHeader, batch: memoryview) -> None:
        if not header.is_control:
            return
        for offset, record in control_records.read(batch):
            if isinstance(record, VotersRecord):
                self._history.add(offset, _voters(record))
                self._addresses[offset] = _addresses(record)


def _voters(record: VotersRecord) -> Voters:
    return Voters(tuple(sorted(voter.voter_id for voter in record.voters)))


def _addresses(record: VotersRecord) -> dict[int, tuple[str, int]]:
    known = [(voter.voter_id, voter.endpoints[0]) for voter in record.voters if voter.endpoints]
    return {voter_id: (endpoint.host, endpoint.port) for voter_id, endpoint in known}
