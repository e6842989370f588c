"""What a node remembers of its logs over a restart, in Kafka's checkpoint files.

`recovery-point-offset-checkpoint`: up to where each log was synced; recovery scans from there, and below it a bad
batch is damage, not a torn tail. `replication-offset-checkpoint`: high watermarks. `log-start-offset-checkpoint`: log
starts moved by DeleteRecords. `cleaner-offset-checkpoint`: up to where each log has been compacted; where that is lost,
it is compacted anew. `.kafka_cleanshutdown` is there only after an orderly stop, and has the checksums of all: Kafka's
format has none, and a digit that turned into another would hide records or bring deleted ones back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable

from crc32c import crc32c

from chronik.core.errors import Corrupt
from chronik.core.ports import Files
from chronik.core.replica.replica import Replica
from chronik.core.types import UNKNOWN_OFFSET, TopicPartition

log = logging.getLogger(__name__)

SYNCED = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
ALL = (SYNCED, WATERMARKS, STARTS, CLEANED)
CLEAN = ".kafka_cleanshutdown"
VERSION = 0


def encode(offsets: dict[TopicPartition, int]) -> bytes:
    lines = [str(VERSION), str(len(offsets))]
    lines += (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    return ("\n".join(lines) + "\n").encode()


def decode(name: str, content: bytes) -> dict[TopicPartition, int]:
    """Raises Corrupt."""
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        if int(version) != VERSION:
            raise Corrupt(name, f"version {version} is not known")
        if int(count) != len(lines):
            raise Corrupt(name, f"{count} entries announced, {len(lines)} there")
        offsets: dict[TopicPartition, int] = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    except ValueError as problem:
        raise Corrupt(name, f"is no checkpoint: {problem}") from problem
    if any(offset < 0 for offset in offsets.values()):
        raise Corrupt(name, "holds a negative offset")
    return offsets


class Checkpoints:
    """The four files, and the mark of an orderly stop."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._written: dict[str, bytes] = {}
        self._times_at_once = 0  # how often `write` was called
        self._one_at_a_time = asyncio.Lock()
        self._checksums = self._read_checksums()
        self.damaged: list[str] = []  # what could not be read; the logs are then scanned from their start
        self.synced = self._read(SYNCED)
        self.watermarks = self._read(WATERMARKS)
        self.starts = self._read(STARTS)
        self.cleaned = self._read_cleaned()
        self._has_cleaned = files.exists(CLEANED)
        self._stored_starts = dict(self.starts)  # as they are on disk now
        # With a damaged checkpoint nothing is known, so every log is looked at.
        self.was_clean = files.exists(CLEAN) and not self.damaged
        if files.exists(SYNCED):  # an earlier process may have failed to sync the names of what was just read
            files.open(SYNCED).sync()

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return self._decoded(name)
        except Corrupt as problem:
            log.warning("a checkpoint is damaged, so every log is looked at: %s", problem)
            self.damaged.append(name)
            return {}

    def _read_cleaned(self) -> dict[TopicPartition, int]:
        try:
            return self._decoded(CLEANED)
        except Corrupt as problem:
            log.warning("a checkpoint is damaged, so every log is compacted anew: %s", problem)
            return {}

    def _decoded(self, name: str) -> dict[TopicPartition, int]:
        """Raises Corrupt."""
        try:
            content = self._files.read_all(name)
        except FileNotFoundError:
            return {}
        if self._checksums.get(name, crc32c(content)) != crc32c(content):
            raise Corrupt(name, "the checksum does not hold")
        return decode(name, content)

    def _read_checksums(self) -> dict[str, int]:
        """Those of the last orderly stop; none when there was none, or when they themselves do not check out."""
        try:
            *lines, last = self._files.read_all(CLEAN).decode("ascii", "replace").splitlines() or [""]
        except FileNotFoundError:
            return {}
        if last != _checksum_line(CLEAN, "\n".join(lines).encode()):
            return {}
        return {name: int(checksum, 16) for name, checksum in (line.split(" ") for line in lines)}

    def recovery_point(self, name: TopicPartition) -> int:
        """UNKNOWN_OFFSET where the checkpoint cannot be read."""
        return UNKNOWN_OFFSET if SYNCED in self.damaged else self.synced.get(name, 0)

    def started(self) -> None:
        """From now on a stop is only orderly if it says so."""
        self._files.remove(CLEAN)

    def write(self, replicas: Iterable[Replica]) -> None:
        """Write what has changed, at once: for start-up, shutdown and deletions."""
        self._times_at_once += 1
        for name, content in self._changed(replicas):
            self._files.replace(name, content)
            self._is_written(name, content)

    async def write_later(self, replicas: Callable[[], Iterable[Replica]], names: Container[str] = ALL) -> None:
        """As `write`, without the loop waiting for the disk; all of them, or only these."""
        async with self._one_at_a_time:
            while not await self._written_undisturbed(replicas, names):
                pass  # what it had is old: write what holds now

    async def _written_undisturbed(self, replicas: Callable[[], Iterable[Replica]], names: Container[str]) -> bool:
        """False when `write` came between. What was on its way is then older, and must not take the place of what that
        has written: a log may have been cut since, and would be taken for damaged."""
        times_at_once = self._times_at_once

        def is_newest() -> bool:
            return self._times_at_once == times_at_once

        for name, content in self._changed(replicas()):
            if name not in names:
                continue
            self._written.pop(name, None)  # so that `write` writes it, whatever becomes of this
            await self._wait_for_replace(name, content, is_newest)
            if not is_newest():
                return False
            self._is_written(name, content)
        return True

    def _is_written(self, name: str, content: bytes) -> None:
        self._written[name] = content
        self._has_cleaned = self._has_cleaned or name == CLEANED
        if name == STARTS:
            self._stored_starts = decode(name, content)

    def stored_start(self, key: TopicPartition) -> int:
        """The log start that is on disk for it."""
        return self._stored_starts.get(key, 0)

    async def _wait_for_replace(self, name: str, content: bytes, is_newest: Callable[[], bool]) -> None:
        """A task that is cancelled here waits for the file: only one at a time may be on its way."""
        writing = asyncio.ensure_future(self._files.replace_later(name, content, is_newest))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await writing
            raise

    def _changed(self, replicas: Iterable[Replica]) -> list[tuple[str, bytes]]:
        """What is known of a log that is not open, or could not be opened, stays: without it the next start would take
        damage for a torn tail, and cut off what was acknowledged."""
        synced, watermarks, starts = dict(self.synced), dict(self.watermarks), dict(self.starts)
        cleaned = dict(self.cleaned)
        for replica in replicas:
            _note(replica, synced, watermarks, starts, cleaned)
        # In this order: a log start is never above what is synced; and what a follower has below its leader's log start
        # may be of another history, so it must not become readable by a watermark that is on disk before the start is.
        contents = [(SYNCED, encode(synced)), (STARTS, encode(starts)), (WATERMARKS, encode(watermarks))]
        if cleaned or self._has_cleaned:  # as in Kafka, there is none before something has been compacted
            contents.append((CLEANED, encode(cleaned)))
        return [(name, content) for name, content in contents if self._written.get(name) != content]

    def remember(self, replica: Replica) -> None:
        """This log is let go of, to be opened anew: what is known of it holds then."""
        _note(replica, self.synced, self.watermarks, self.starts, self.cleaned)

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """These partitions are gone: a new topic of the same name begins at 0."""
        for key in keys:
            for offsets in (self.synced, self.watermarks, self.starts, self.cleaned, self._stored_starts):
                offsets.pop(key, None)

    def stopped(self) -> None:
        """Everything is closed and synced: the next start need not look."""
        lines = [_checksum_line(name, content) for name, content in self._written.items()]
        self._files.replace(CLEAN, "\n".join([*lines, _checksum_line(CLEAN, "\n".join(lines).encode())]).encode())


def _note(
    replica: Replica,
    synced: dict[TopicPartition, int],
    watermarks: dict[TopicPartition, int],
    starts: dict[TopicPartition, int],
    cleaned: dict[TopicPartition, int],
) -> None:
    key = TopicPartition(replica.topic, replica.partition)
    if replica.log.end_offset == 0 and key not in synced:
        return
    synced[key] = max(replica.log.synced_offset, replica.log.recovery_point.offset)
    watermarks[key] = replica.high_watermark
    if replica.log.start_offset > 0:
        starts[key] = replica.log.start_offset
    else:  # a follower may have begun anew, further down
        starts.pop(key, None)
    if replica.log.clean_offset > 0:
        cleaned[key] = replica.log.clean_offset
    else:
        cleaned.pop(key, None)


def _checksum_line(name: str, content: bytes) -> str:
    return f"{name} {crc32c(content):08x}"
