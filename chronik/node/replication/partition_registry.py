"""Which partitions this node has, and in which role: opened from disk or on first use, led or followed as the metadata
says, taken out of service when they fail, dropped when they are not this node's any more.

What it leads and nobody asked for stays closed; what it follows is open, for its leader to be asked for more. A copy
that is damaged is fetched anew from its leader, once nobody counts on it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused, shortage_of
from chronik.core.log.log import Log
from chronik.core.machines.metadata.image import MetadataImage, Partition, Topic
from chronik.core.machines.metadata.names import METADATA_TOPIC, is_internal
from chronik.core.machines.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from chronik.core.ports import Clock, Files
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.replica.replica import NO_LEADER, Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import SYNCED, Checkpoints
from chronik.node.replication.directories import Directories
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.sync_rounds import SyncRounds
from chronik.node.runtime.long_work import LongWork
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder

log = logging.getLogger(__name__)


class PartitionRegistry:
    """This node's replicas by topic and partition: which there are, and in which role."""

    def __init__(
        self,
        files: Files,
        checkpoints: Checkpoints,
        waiting: Purgatory,
        clock: Clock,
        metrics: Metrics,
        *,
        node_id: int,
        is_synced: bool,
        data_dir: str,
        trace: Recorder | None = None,
    ) -> None:
        self.trace = trace  # None in tests of what has nothing to tell
        self._files = files
        self._checkpoints = checkpoints
        self.waiting = waiting
        self._clock = clock
        self._metrics = metrics
        self._node_id = node_id
        self._is_synced = is_synced
        self._data_dir = data_dir
        self._directories = Directories(files, checkpoints)
        self.long_work = LongWork(files)
        self._held: dict[tuple[str, int], Replica] = {}
        self._held_in_order: tuple[Replica, ...] | None = None  # by their names; None when that has changed
        self._failed: dict[tuple[str, int], str] = {}  # could not even be opened, and why
        self._failed_ids: dict[tuple[str, int], bytes] = {}  # of the topic that each of them belongs to
        self._put_off: set[tuple[str, int]] = set()  # of those, what only a shortage kept from being opened
        self._let_go_of: set[tuple[str, int]] = set()  # what this process had open, and opens anew
        self._damaged: dict[tuple[str, int], None] = {}  # what others may still have whole
        self._image: MetadataImage | None = None
        self._is_caught_up = False  # what the image says holds now, and is no history being read
        self.commits = SyncRounds(files, waiting.moved, self._sync_failed, self._store_recovery_points)
        self.shortage: str | None = None  # what the last batch was refused for: the disk is full, say
        self.read_shortage: str | None = None  # the same of the last read
        self.on_offline: list[Callable[[Replica], None]] = []
        self.on_role: list[Callable[[Replica], None]] = []  # it leads, or follows another leader or epoch than before
        self.on_gone: list[Callable[[Replica], None]] = []  # it is not this node's any more
        self.on_progress: list[Callable[[Replica], None]] = []  # a follower's, which may change the in-sync set
        self.on_start: list[Callable[[Replica], None]] = []  # its log starts later than it did

    # --- which there are

    def follow(self, image: MetadataImage, *, is_caught_up: bool = True) -> None:
        """From now on the image says which partitions there are. If it is history still, `metadata_changed` with None
        says when it is not any more."""
        self._image = image
        self._is_caught_up = is_caught_up

    def leader(self, topic: str, partition: int) -> Replica:
        replica = self._held.get((topic, partition))
        if replica is None or topic == METADATA_TOPIC:  # which nobody but its machine reads or writes
            return self._open_known(topic, partition)
        if replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, replica.offline)
        if not replica.is_leader:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        return replica

    def readable(self, topic: str, partition: int) -> Replica:
        """As `leader`, or a follower: consumers may read from either (KIP-392)."""
        replica = self._held.get((topic, partition))
        if replica is None or topic == METADATA_TOPIC:
            return self._open_known(topic, partition)
        if replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, replica.offline)
        if replica.leader_id < 0:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        return replica

    def placed(self, replica: Replica) -> Partition | None:
        """What the metadata says of it now."""
        return self._image.partition(replica.topic, replica.partition) if self._image is not None else None

    def _open_known(self, topic: str, partition: int) -> Replica:
        image = self._image
        known = image.topic(topic) if image is not None else None
        if image is None or known is None or not 0 <= partition < len(known.partitions):
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        if not self._may_be_opened((topic, partition)):
            raise Refused(Code.KAFKA_STORAGE_ERROR, self._failed[topic, partition])
        placed = known.partitions[partition]
        if placed.leader != self._node_id or not self._is_caught_up:  # it was led by an earlier process of this node
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        replica = self.open(topic, partition, known.id, image.topic_config(topic), placed)
        if replica is None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, self._failed[topic, partition])
        return replica

    def open(
        self, topic: str, partition: int, topic_id: bytes, config: TopicConfig, placed: Partition | None = None
    ) -> Replica | None:
        """Open (and recover) a partition's log, to lead or follow as `placed` says; without it, to lead it alone. None
        when it cannot be opened: it is then offline, with the reason kept."""
        name = TopicPartition(topic, partition)
        checkpoints = self._checkpoints
        try:
            if self._directories.is_stray(name, topic_id):
                self._forget([name])
                self._directories.move_stray_aside(name, topic_id)
            opened = Log.open(
                self._files,
                str(name),
                config,
                self._clock.now_ms(),
                was_clean=checkpoints.was_clean and name not in self._let_go_of,
                synced_offset=checkpoints.recovery_point(name),
                log_start_offset=checkpoints.starts.get(name, 0),
            )
            self._sync_recovered(opened)
            self._count_recovered(name, opened)
        except (Corrupt, OSError) as problem:
            self._failed_ids[name] = topic_id
            self._not_opened(name, problem)
            return None
        self._failed.pop(name, None)
        if opened.recovery.cut_bytes or opened.recovery.rebuilt_indexes:
            log.warning("%s was recovered: %s", name, opened.recovery)
        # The metadata log is led by whom the quorum elects, and safe as far as the quorum says.
        kind = QuorumReplica if topic == METADATA_TOPIC else Replica
        replica = kind(
            topic,
            partition,
            topic_id,
            opened,
            node_id=self._node_id,
            is_synced=self._is_synced,
            high_watermark=checkpoints.watermarks.get(name, 0),
        )
        self._held[topic, partition] = replica
        self._held_in_order = None
        if placed is None:
            replica.lead_alone()
        else:
            self._take_role(replica, placed)
        return replica

    def _not_opened(self, name: TopicPartition, problem: Corrupt | OSError) -> None:
        """What a shortage keeps from being opened (recovery may have to write) is tried again when it is asked for."""
        if shortage_of(problem) is not None:
            self._put_off.add(name)
        else:
            self._put_off.discard(name)
        if isinstance(problem, Corrupt):
            self._damaged[name] = None
        if self._failed.get(name) != str(problem):
            log.error("%s is offline: %s", name, problem)
        self._failed[name] = str(problem)

    def is_put_off(self, topic: str, partition: int) -> bool:
        """Whether it is not served only because room, descriptors or memory ran out."""
        return (topic, partition) in self._put_off and (topic, partition) in self._failed

    def _may_be_opened(self, key: tuple[str, int]) -> bool:
        return key not in self._failed or key in self._put_off

    def _sync_recovered(self, opened: Log) -> None:
        """What was found after a crash may be in memory only; it counts as safe once it has been synced."""
        files, end_offset = opened.unsynced()
        for file in files:
            file.sync()
        opened.mark_synced(end_offset)

    def _count_recovered(self, name: TopicPartition, opened: Log) -> None:
        """As in a round of syncs: what is in a later segment counts when the recovery point says so."""
        if not opened.is_on_disk(opened.end_offset):
            self._checkpoints.synced[name] = opened.end_offset
            self._checkpoints.write(self.held())
            opened.recovery_point.stored(opened.end_offset)

    async def _store_recovery_points(self) -> None:
        await self._checkpoints.write_later(self.held, (SYNCED,))

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
        """Open it if that has not been done; what is wrong with it is kept, and is the answer to requests for it."""
        with contextlib.suppress(Refused):
            self.leader(name.topic, name.partition)

    def remove_deleted(self) -> None:
        """What a crash left of topics that were being deleted. Nothing while the image is history: a topic that it does
        not know yet may have come since."""
        assert self._image is not None  # follow() comes first
        if self._is_caught_up:
            self._directories.remove_deleted(self._image, self._node_id)

    def held(self) -> Iterator[Replica]:
        if self._held_in_order is None:
            self._held_in_order = tuple(replica for _, replica in sorted(self._held.items()))
        return iter(self._held_in_order)

    def log_directory(self) -> str:
        return self._data_dir

    def disk_bytes(self) -> tuple[int, int]:
        return self._files.disk_bytes()

    def offline(self) -> dict[tuple[str, int], str]:
        """What is not served, and why."""
        reasons = dict(self._failed)
        reasons.update({key: replica.offline for key, replica in self._held.items() if replica.offline is not None})
        return reasons

    # --- out of service

    def read_failed(self, replica: Replica, problem: Corrupt | OSError) -> Code:
        what = shortage_of(problem)
        if what is not None:  # nothing is known to be wrong with it: it can be read when there is some again
            if self.read_shortage != what:
                log.error("%s: what has to be read is refused until there is more", what)
            self.read_shortage = what
            return Code.KAFKA_STORAGE_ERROR
        if isinstance(problem, Corrupt):
            self._damaged[replica.topic, replica.partition] = None
        self.take_offline(replica, f"read failed: {problem}")
        return Code.KAFKA_STORAGE_ERROR

    def run_short(self, what: str) -> None:
        """Something has run out. Said once, until a batch is taken again."""
        if self.shortage != what:
            log.error("%s: batches are refused until there is more", what)
        self.shortage = what

    def _sync_failed(self, replica: Replica, problem: Exception) -> None:
        if not isinstance(problem, OSError):
            self._metrics.faults += 1
        self.take_offline(replica, f"sync failed: {problem}")

    def take_offline(self, replica: Replica, reason: str) -> None:
        if replica.offline is not None:
            return
        log.error("%s-%d is offline: %s", replica.topic, replica.partition, reason)
        replica.take_offline(reason)
        self.waiting.lost(replica, Code.KAFKA_STORAGE_ERROR)
        for told in self.on_offline:
            told(replica)

    # --- what the metadata says

    def metadata_changed(self, facts: Iterable[Any] | None = None) -> list[str]:
        """These facts were applied to the image (None: any may have been; it holds what holds now). Lead, follow and
        drop as it says. Returns directories to be deleted."""
        image = self._image
        assert image is not None  # follow() comes first
        if facts is None:
            self._is_caught_up = True
            # A cluster whose metadata was lost has no topic either: what is on disk may be all there is of them.
            left_behind = self._drop_left_behind(image) if image.topics else []
            return [*self._drop_gone(image), *left_behind, *self._place_all(image)]
        if not self._is_caught_up:
            return []
        facts = list(facts)
        removed: list[str] = []
        # First: a topic made anew needs the name, and a set that shrinks must be held against the settings of now.
        if any(isinstance(fact, RemoveTopicRecord | ConfigRecord) for fact in facts):
            removed += self._drop_gone(image)
        for fact in facts:
            if isinstance(fact, PartitionRecord | PartitionChangeRecord):
                topic = image.topic_by_id(fact.topic_id)
                if topic is not None:
                    removed += self._place(image, topic, fact.partition_id)
        return removed

    def _place_all(self, image: MetadataImage) -> list[str]:
        removed: list[str] = []
        for topic in list(image.topics.values()):
            for partition in range(len(topic.partitions)):
                removed += self._place(image, topic, partition)
        return removed

    def _place(self, image: MetadataImage, topic: Topic, partition: int) -> list[str]:
        """Have a partition as the image places it. Returns directories to be deleted."""
        placed = topic.partitions[partition]
        key = (topic.name, partition)
        replica = self._held.get(key)
        if self._node_id not in placed.replicas:
            return self._drop(TopicPartition(*key), replica)
        if replica is not None and replica.topic_id != topic.id:
            return []  # of an earlier topic of that name: `_drop_gone` sees to it
        if key in self._damaged and self._others_have(placed):
            self._begin_anew(TopicPartition(*key), topic.id, replica)
            replica = None
        if replica is not None:
            self._take_role(replica, placed)
        elif self._may_be_opened(key) and (placed.leader not in (self._node_id, NO_LEADER) or topic.is_internal):
            self.open(topic.name, partition, topic.id, image.topic_config(topic.name), placed)
        return []

    def _take_role(self, replica: Replica, placed: Partition) -> None:
        was_leader, before = replica.is_leader, (replica.leader_id, replica.leader_epoch)
        in_sync_before = () if replica.in_sync is None else replica.in_sync.in_sync
        has_moved = False
        if placed.leader == self._node_id:
            has_moved = replica.lead(
                placed.leader_epoch,
                placed.partition_epoch,
                placed.replicas,
                placed.in_sync,
                self._clock.monotonic_ms(),
            )
        else:
            replica.follow(placed.leader, placed.leader_epoch, placed.partition_epoch)
        is_new = (replica.leader_id, replica.leader_epoch) != before
        if before[1] >= 0 and self.trace is not None and self.trace.steps is not None:  # not only opened
            if is_new:
                self.trace.steps.leader_changed(replica, *before)
            self.trace.steps.in_sync_changed(replica, in_sync_before)
        if was_leader and not replica.is_leader:
            self.waiting.lost(replica, Code.NOT_LEADER_OR_FOLLOWER)
        elif has_moved or is_new:
            self.waiting.moved(replica)
        if is_new:
            for told in self.on_role:
                told(replica)

    def is_damaged(self, topic: str, partition: int) -> bool:
        """Whether what is on disk here is not what was written."""
        return (topic, partition) in self._damaged

    def _others_have(self, placed: Partition) -> bool:
        """Whether the cluster does not count on this node's copy, and another node leads."""
        is_led = placed.leader not in (self._node_id, NO_LEADER)
        return is_led and self._node_id not in placed.in_sync and self._node_id not in placed.eligible

    def _begin_anew(self, name: TopicPartition, topic_id: bytes, replica: Replica | None) -> None:
        if replica is not None:
            self._let_go(replica, Code.KAFKA_STORAGE_ERROR)
        try:
            self._directories.move_damaged_aside(name, topic_id)
        except OSError as problem:  # tried again with the next change of the metadata
            log.error("%s is damaged, and cannot be moved aside: %s", name, problem)
            self._failed[name] = str(problem)
            return
        self._damaged.pop(name, None)
        self._failed.pop(name, None)

    def repair_damaged(self) -> None:
        """Fetch anew what was found damaged, where others have it; open what a shortage kept from being opened."""
        image = self._image
        waiting = [name for name in sorted(self._put_off) if name in self._failed]
        for name in [*self._damaged, *waiting]:
            topic = image.topic(name[0]) if image is not None else None
            if image is None or topic is None or name[1] >= len(topic.partitions):
                self._damaged.pop(name, None)
            else:
                self._place(image, topic, name[1])

    def _drop(self, name: TopicPartition, replica: Replica | None) -> list[str]:
        """It was moved to other nodes."""
        if replica is None and name not in self._failed and name not in self._checkpoints.synced:
            return []
        log.info("%s is on other nodes now", name)
        self._failed.pop(name, None)
        self._damaged.pop(name, None)
        if replica is not None:
            removed = self._remove(replica, Code.NOT_LEADER_OR_FOLLOWER)
        else:
            removed = self._directories.rename_away(str(name), "moved")
        self._forget([name])
        return removed

    def _drop_gone(self, image: MetadataImage) -> list[str]:
        """Drop the partitions of topics that are gone, give the others their settings."""
        removed: list[str] = []
        forgotten: list[TopicPartition] = []
        for (topic, partition), replica in list(self._held.items()):
            known = image.topic(topic)
            if topic == METADATA_TOPIC:
                continue
            if known is None or known.id != replica.topic_id:
                removed += self._remove(replica, Code.UNKNOWN_TOPIC_OR_PARTITION)
                forgotten.append(TopicPartition(topic, partition))
                continue
            config = image.topic_config(topic)
            if replica.log.config is not config:
                replica.log.config = config
                if replica.recount():  # fewer may have to be in sync than before
                    self.waiting.moved(replica)
        for name in self._unopened():
            if not image.topics and name not in self._failed and self._directories.has(name):
                continue  # left behind, and as in `metadata_changed`
            known = image.topic(name.topic)
            # Also if another has its name now: that one has perhaps fewer partitions.
            is_gone = known is None or name.partition >= len(known.partitions)
            if is_gone or (known is not None and self._failed_ids.get(name, known.id) != known.id):
                self._failed_ids.pop(name, None)
                self._failed.pop(name, None)
                self._damaged.pop(name, None)
                removed += self._directories.rename_away(str(name), "unopened")
                forgotten.append(name)
        if forgotten:
            self._forget(forgotten)
        return removed

    def _drop_left_behind(self, image: MetadataImage) -> list[str]:
        """Drop what is on disk and not this node's, whether a checkpoint knows it or not."""
        removed: list[str] = []
        gone: list[TopicPartition] = []
        for name, topic_id in self._directories.left_behind(image, self._node_id):
            if name in self._held:
                continue
            log.info("%s was deleted, or moved to other nodes, while this node was down", name)
            removed += self._directories.rename_away(str(name), topic_id.hex())
            gone.append(name)
        if any(name in self._checkpoints.synced for name in gone):
            self._forget(gone)
        return removed

    def _unopened(self) -> Iterable[TopicPartition]:
        """Partitions that are on disk as far as we know, and not open: not asked for yet, or broken."""
        names = dict.fromkeys(TopicPartition(topic, partition) for topic, partition in self._failed)
        names.update(dict.fromkeys(self._checkpoints.synced))
        return [name for name in names if name not in self._held and name.topic != METADATA_TOPIC]

    def _forget(self, gone: list[TopicPartition]) -> None:
        """At once, also on disk: after a crash a new topic of that name would seem to have lost what the old had."""
        self._checkpoints.forget(gone)
        try:
            self._checkpoints.write(self.held())
        except OSError as problem:  # housekeeping tries again in a few seconds
            log.warning("checkpoints: %s", problem)

    def _remove(self, replica: Replica, code: Code) -> list[str]:
        """Close it and rename its directory: a new topic may have its name. Returns what is left to delete, once the
        deletion is safe (`remove_deleted`)."""
        self._let_go(replica, code)
        return self._directories.rename_away(replica.log.directory, replica.topic_id.hex())

    def _let_go(self, replica: Replica, code: Code) -> None:
        self._held.pop((replica.topic, replica.partition), None)
        self._held_in_order = None
        replica.take_offline("it is not on this node any more")
        self.waiting.lost(replica, code)
        replica.log.abandon()
        for told in self.on_gone:
            told(replica)

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
