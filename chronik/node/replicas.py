"""The partitions this node has: opened from disk or on first use, appended to, and taken out of service when they fail.

A disk that is full refuses a batch and goes on when there is room. A write, sync or read that fails, and bytes that
are not what was written, take that one replica offline; the node and every other partition go on.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import logging
import re
from collections.abc import Callable, Iterable, Iterator

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.log.log import Appended, Log
from chronik.core.log.segment import Slice
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import METADATA_TOPIC, is_internal
from chronik.core.ports import SENT_UNREAD_BYTES, Clock, File, Files, FileSlice, Outgoing
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.checkpoints import Checkpoints
from chronik.node.group_commit import GroupCommit
from chronik.node.waiting import Waiting
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

PARTITION_METADATA = "partition.metadata"
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
NAME_BYTES_MAX = 255  # of a file or directory
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_TOPIC_ID = re.compile(rb"^topic_id: [A-Za-z0-9_-]{22}$", re.MULTILINE)
SLIPPED_BITS_MAX = 8  # two topic ids, thrown by dice, differ in far more


class Replicas:
    """This node's replicas by topic and partition."""

    def __init__(
        self,
        files: Files,
        checkpoints: Checkpoints,
        waiting: Waiting,
        clock: Clock,
        metrics: Metrics,
        *,
        node_id: int,
        is_synced: bool,
        data_dir: str,
    ) -> None:
        self._files = files
        self._checkpoints = checkpoints
        self._waiting = waiting
        self._clock = clock
        self._metrics = metrics
        self._node_id = node_id
        self._is_synced = is_synced
        self._data_dir = data_dir
        self._held: dict[tuple[str, int], Replica] = {}
        self._failed: dict[tuple[str, int], str] = {}  # could not even be opened, and why
        self._wants_room: set[tuple[str, int]] = set()  # of those, what only a full disk kept from being opened
        self._image: MetadataImage | None = None
        self.commits = GroupCommit(files, waiting.moved, self._sync_failed)
        self.is_disk_full = False  # the last batch was refused for it
        self.on_offline: list[Callable[[Replica], None]] = []

    # --- which there are

    def follow(self, image: MetadataImage) -> None:
        """From now on the image says which partitions there are."""
        self._image = image
        checkpoints = self._checkpoints
        gone = [key for key in checkpoints.synced if image.topic(key.topic) is None and key.topic != METADATA_TOPIC]
        checkpoints.forget(gone)  # deleted just before a crash

    def leader(self, topic: str, partition: int) -> Replica:
        replica = self._held.get((topic, partition))
        if (
            replica is None or topic == METADATA_TOPIC
        ):  # the metadata log is nobody's to read or write but its machine's
            return self._open_known(topic, partition)
        if replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, replica.offline)
        return replica

    def _open_known(self, topic: str, partition: int) -> Replica:
        image = self._image
        known = image.topic(topic) if image is not None else None
        if image is None or known is None or not 0 <= partition < len(known.partitions):
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        if (topic, partition) in self._failed and (topic, partition) not in self._wants_room:
            raise Refused(Code.KAFKA_STORAGE_ERROR, self._failed[topic, partition])
        placed = known.partitions[partition]
        if placed.leader != self._node_id:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        replica = self.open(topic, partition, known.id, image.topic_config(topic), placed.leader_epoch, placed.in_sync)
        if replica is None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, self._failed[topic, partition])
        return replica

    def open(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: TopicConfig,
        leader_epoch: int = 0,
        in_sync: tuple[int, ...] | None = None,
    ) -> Replica | None:
        """Open (and recover) a partition's log. None when it cannot be: it is then offline, with the reason kept."""
        name = TopicPartition(topic, partition)
        checkpoints = self._checkpoints
        try:
            self._move_stray_aside(name, topic_id)
            opened = Log.open(
                self._files,
                str(name),
                config,
                self._clock.now_ms(),
                was_clean=checkpoints.was_clean,
                synced_offset=checkpoints.synced.get(name, 0),
                log_start_offset=checkpoints.starts.get(name, 0),
            )
            self._sync_recovered(opened)
        except (Corrupt, OSError) as problem:
            self._not_opened(name, problem)
            return None
        self._failed.pop(name, None)
        if opened.recovery.cut_bytes or opened.recovery.rebuilt_indexes:
            log.warning("%s was recovered: %s", name, opened.recovery)
        replica = Replica(
            topic,
            partition,
            topic_id,
            opened,
            node_id=self._node_id,
            is_synced=self._is_synced,
            high_watermark=checkpoints.watermarks.get(name, 0),
        )
        alone = (self._node_id,)
        replica.lead(leader_epoch, 0, in_sync or alone, in_sync or alone, self._clock.monotonic_ms())
        self._held[topic, partition] = replica
        return replica

    def _not_opened(self, name: TopicPartition, problem: Corrupt | OSError) -> None:
        """Recovery may have to write: what a full disk keeps from being opened is tried again when it is asked for."""
        if isinstance(problem, OSError) and problem.errno in _DISK_IS_FULL:
            self._wants_room.add(name)
        else:
            self._wants_room.discard(name)
        if self._failed.get(name) != str(problem):
            log.error("%s is offline: %s", name, problem)
        self._failed[name] = str(problem)

    def wants_room(self, topic: str, partition: int) -> bool:
        """Whether it is not served only because the disk is full."""
        return (topic, partition) in self._wants_room and (topic, partition) in self._failed

    def _sync_recovered(self, opened: Log) -> None:
        """What was found after a crash may be in memory only; it counts as safe once it has been synced."""
        files, end_offset = opened.unsynced()
        for file in files:
            file.sync()
        opened.mark_synced(end_offset)

    def _move_stray_aside(self, name: TopicPartition, topic_id: bytes) -> None:
        """A directory left by an earlier topic of the same name must never be served as this one's."""
        directory = str(name)
        if PARTITION_METADATA not in self._files.names(directory):
            return
        path, expected = f"{directory}/{PARTITION_METADATA}", _partition_metadata(topic_id)
        content = self._files.read_all(path)
        if content == expected:
            return
        if _TOPIC_ID.search(content) is None or _differing_bits(content, expected) <= SLIPPED_BITS_MAX:
            # Lost with the power, or damaged: it does not say that the log is another's.
            log.warning("%s was damaged and is written anew", path)
            self._files.replace(path, expected)
            return
        aside = renamed(directory, f".{encode_id(topic_id)}{STRAY_SUFFIX}")
        log.warning("%s belongs to another topic of that name; moved to %s", directory, aside)
        self._files.rename(directory, aside)
        self._checkpoints.forget((name,))

    def on_disk(self) -> list[TopicPartition]:
        """The partitions of the image that have something on disk here, our own topics first."""
        assert self._image is not None  # follow() comes first
        names = set(self._files.names(""))
        found = [
            TopicPartition(topic.name, partition)
            for topic in self._image.topics.values()
            for partition, placed in enumerate(topic.partitions)
            if placed.leader == self._node_id and f"{topic.name}-{partition}" in names
        ]
        return sorted(found, key=lambda name: not is_internal(name.topic))

    def ensure_open(self, name: TopicPartition) -> None:
        """Open it if that has not been done; what is wrong with it is kept and answered to whoever asks for it."""
        with contextlib.suppress(Refused):
            self.leader(name.topic, name.partition)

    def remove_deleted(self) -> None:
        """What a crash left of topics that were being deleted. Where the deletion itself was lost in the crash, nobody
        was told of it: the topic is still there, and gets its partitions back."""
        for name in self._files.names(""):
            if name.endswith(DELETED_SUFFIX):
                directory = self._wanted_back(name)
                if directory is None:
                    self._files.remove(name)
                else:
                    log.warning("%s was not deleted after all: its deletion was lost in a crash", directory)
                    self._files.rename(name, directory)

    def _wanted_back(self, name: str) -> str | None:
        assert self._image is not None  # follow() comes first
        partition = name.rpartition(".")[0].rpartition("-")[2]
        with contextlib.suppress(FileNotFoundError, ValueError):
            told = _TOPIC_ID.search(self._files.read_all(f"{name}/{PARTITION_METADATA}"))
            topic = self._image.topic_by_id(decode_id(told[0].split()[1])) if told is not None else None
            directory = f"{topic.name}-{int(partition)}" if topic is not None else ""
            if directory and not self._files.exists(directory):
                return directory
        return None

    def held(self) -> Iterator[Replica]:
        for _, replica in sorted(self._held.items()):
            yield replica

    def log_directory(self) -> str:
        return self._data_dir

    def disk_bytes(self) -> tuple[int, int]:
        return self._files.disk_bytes()

    def offline(self) -> dict[tuple[str, int], str]:
        """What is not served, and why."""
        reasons = dict(self._failed)
        reasons.update({key: replica.offline for key, replica in self._held.items() if replica.offline is not None})
        return reasons

    # --- writing and reading

    def append(self, replica: Replica, records: memoryview | bytearray, acks: int) -> Appended:
        if replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, replica.offline)
        try:
            if replica.log.end_offset == 0:  # before there is anything in it: whose it is must not be in doubt later
                self._mark_directory(replica)
            appended = replica.append(records, acks, self._clock.now_ms())
        except OSError as problem:
            if problem.errno in _DISK_IS_FULL:
                if not self.is_disk_full:
                    log.error("the disk is full: batches are refused until there is room")
                self.is_disk_full = True
                raise Refused(Code.KAFKA_STORAGE_ERROR, "the disk is full") from problem
            self.take_offline(replica, f"write failed: {problem}")
            raise Refused(Code.KAFKA_STORAGE_ERROR, f"write failed: {problem}") from problem
        except Corrupt as problem:  # met while looking up an earlier batch of its producer, or in the index
            self.take_offline(replica, str(problem))
            raise Refused(Code.KAFKA_STORAGE_ERROR, str(problem)) from problem
        if self.is_disk_full and appended.is_new:
            self.is_disk_full = False
            log.info("the disk has room again")
        metrics = self._metrics
        if appended.is_new:
            metrics.produced_batches += 1
            metrics.bytes_in += len(records)
        else:
            metrics.duplicate_batches += 1
        is_synced = replica.is_synced
        if is_synced or replica.is_flush_due:
            self.commits.due(replica)
        if appended.is_new and not is_synced:
            self._waiting.moved(replica)
        return appended

    def _mark_directory(self, replica: Replica) -> None:
        """The mark is safe when the first batch is: without it, nobody could tell whose that batch was."""
        file = self._files.open(f"{replica.log.directory}/{PARTITION_METADATA}")
        file.truncate(0)
        file.append((_partition_metadata(replica.topic_id),))
        replica.log.sync_with_next(file)

    def read_cached(self, plan: Slice) -> Outgoing | None:
        if plan.length >= SENT_UNREAD_BYTES and not plan.needs_check and plan.file.is_in_memory(plan.position):
            return FileSlice(plan.file, plan.position, plan.length)
        try:
            return plan.file.read_cached(plan.position, plan.length)
        except OSError as problem:
            return self._unreadable(plan, problem)

    async def wait_for_read(self, plan: Slice) -> bytes:
        try:
            return await self._files.read_later(plan.file, plan.position, plan.length)
        except OSError as problem:
            return self._unreadable(plan, problem)

    def _unreadable(self, plan: Slice, problem: OSError) -> bytes:
        """Too few bytes: `check_read`, which every slice goes through, makes of it what it is."""
        log.error("%s at %d: read failed: %s", plan.file.path, plan.position, problem)
        return b""

    def check_read(self, replica: Replica, plan: Slice, content: Outgoing) -> Code:
        is_whole = len(content) == plan.length
        if not is_whole and plan.next_offset <= replica.log.start_offset:
            return Code.OFFSET_OUT_OF_RANGE  # deleted while it was being read
        if not is_whole and not replica.log.is_current(plan):
            return Code.NONE  # compacted while it was being read: nothing for now, and the client asks again
        try:
            if not isinstance(content, FileSlice) and (plan.needs_check or not is_whole):
                replica.log.check_slice(plan, content)
        except Corrupt as problem:
            return self.read_failed(replica, problem)
        self._metrics.bytes_out += plan.length
        return Code.NONE

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

    # --- out of service

    def read_failed(self, replica: Replica, problem: Corrupt | OSError) -> Code:
        self.take_offline(replica, f"read failed: {problem}")
        return Code.KAFKA_STORAGE_ERROR

    def _sync_failed(self, replica: Replica, problem: Exception) -> None:
        if not isinstance(problem, OSError):
            self._metrics.faults += 1
        self.take_offline(replica, f"sync failed: {problem}")

    def take_offline(self, replica: Replica, reason: str) -> None:
        if replica.offline is not None:
            return
        log.error("%s-%d is offline: %s", replica.topic, replica.partition, reason)
        replica.take_offline(reason)
        self._waiting.lost(replica, Code.KAFKA_STORAGE_ERROR)
        for told in self.on_offline:
            told(replica)

    def metadata_changed(self) -> Iterable[str]:
        """The image changed: drop the partitions of topics that are gone, give the others their settings."""
        assert self._image is not None  # follow() comes first
        removed: list[str] = []
        forgotten: list[TopicPartition] = []
        for (topic, partition), replica in list(self._held.items()):
            known = self._image.topic(topic)
            if topic == METADATA_TOPIC:
                continue
            if known is None or known.id != replica.topic_id:
                del self._held[topic, partition]
                removed += self._remove(replica)
                forgotten.append(TopicPartition(topic, partition))
                continue
            config = self._image.topic_config(topic)
            if replica.log.config is not config:
                replica.log.config = config
        for name in self._unopened():
            if self._image.topic(name.topic) is None:
                self._failed.pop((name.topic, name.partition), None)
                removed += self._rename_away(str(name), "unopened")
                forgotten.append(name)
        if forgotten:
            self._forget(forgotten)
        return removed

    def _unopened(self) -> Iterable[TopicPartition]:
        """Partitions that are on disk as far as we know, and not open: not asked for yet, or broken."""
        names = dict.fromkeys(TopicPartition(topic, partition) for topic, partition in self._failed)
        names.update(dict.fromkeys(self._checkpoints.synced))
        return [name for name in names if (name.topic, name.partition) not in self._held]

    def _forget(self, gone: list[TopicPartition]) -> None:
        """At once, also on disk: after a crash a new topic of that name would seem to have lost what the old had."""
        self._checkpoints.forget(gone)
        try:
            self._checkpoints.write(self.held())
        except OSError as problem:  # housekeeping tries again in a few seconds
            log.warning("checkpoints: %s", problem)

    def _remove(self, replica: Replica) -> list[str]:
        """Close it and rename its directory: a new topic may have its name. Returns what is left to delete, once the
        deletion is safe (`remove_deleted`)."""
        replica.take_offline("the topic was deleted")
        self._waiting.lost(replica, Code.UNKNOWN_TOPIC_OR_PARTITION)
        replica.log.abandon()
        return self._rename_away(replica.log.directory, replica.topic_id.hex())

    def _rename_away(self, directory: str, mark: str) -> list[str]:
        gone = renamed(directory, f".{mark}{DELETED_SUFFIX}")
        try:
            if not self._files.exists(directory):
                return []
            self._files.rename(directory, gone)
        except OSError as problem:  # it stays, and by its topic id is never taken for another topic's
            log.error("%s of a deleted topic cannot be renamed: %s", directory, problem)
            return []
        return [gone]

    def close(self) -> None:
        """After the last append: sync and close every log. Raises OSError if one cannot be, after trying the others."""
        problems: list[OSError] = []
        for replica in self._held.values():
            if replica.offline is None:
                try:
                    self._sync_recovered(replica.log)
                    replica.log.close()
                except OSError as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]


def renamed(directory: str, suffix: str) -> str:
    """The directory with a suffix; of a long topic name only so much is kept that a file system takes it."""
    topic, _, partition = directory.rpartition("-")
    suffix = f"-{partition}{suffix}"
    return topic[: NAME_BYTES_MAX - len(suffix)] + suffix


def _partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {encode_id(topic_id)}\n".encode()


def _differing_bits(one: bytes, other: bytes) -> int:
    differing = sum((a ^ b).bit_count() for a, b in zip(one, other, strict=False))
    return differing + 8 * abs(len(one) - len(other))


def encode_id(topic_id: bytes) -> str:
    """A topic id as Kafka writes it: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def decode_id(text: bytes) -> bytes:
    """The topic id that `encode_id` wrote. Raises ValueError."""
    return base64.urlsafe_b64decode(text + b"==")
