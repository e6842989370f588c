"""Which partitions this node hosts, and in which role: opened from disk or on first use, led or followed as the
metadata says, taken out of service when they fail, dropped when they are not this node's any more.

What it leads and nothing asked for stays closed; what it follows is open, for its leader to be asked for more. A copy
that is damaged is fetched anew from its leader, once no node counts on it. `hosted_partitions` has the states,
`partition_logs` the files; `replicas` reads and writes what is found here.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Interrupted, Refused, shortage_of
from chronik.core.machines.metadata.image import MetadataImage, Partition, Topic
from chronik.core.machines.metadata.names import METADATA_TOPIC, is_internal
from chronik.core.machines.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from chronik.core.ports import Clock
from chronik.core.replica.replica import NO_LEADER, Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.hosted_partitions import HostedPartitions, OpenPartition
from chronik.node.replication.partition_logs import PartitionLogs
from chronik.node.replication.purgatory import Purgatory
from chronik.trace.metrics import Metrics
from chronik.trace.observer import NOT_OBSERVED, Observation

log = logging.getLogger(__name__)


def _nothing(_: Replica) -> None: ...


class ReplicaListeners(NamedTuple):
    """What the other parts of a node want to hear of its replicas. Each is one function, so the order in which several
    parts hear of something is the order of its lines (node/node.py)."""

    role_changed: Callable[[Replica], None] = _nothing  # it leads, or follows another leader or epoch than before
    went_offline: Callable[[Replica], None] = _nothing
    removed: Callable[[Replica], None] = _nothing  # it is not this node's any more, or is opened anew
    follower_progressed: Callable[[Replica], None] = _nothing  # which may change the in-sync set
    start_moved: Callable[[Replica], None] = _nothing  # its log starts later than it did


NO_LISTENERS = ReplicaListeners()


class PartitionRegistry:
    """This node's replicas by topic and partition: which there are, and in which role."""

    def __init__(
        self,
        hosted: HostedPartitions,
        logs: PartitionLogs,
        purgatory: Purgatory,
        clock: Clock,
        metrics: Metrics,
        *,
        node_id: int,
        listeners: ReplicaListeners = NO_LISTENERS,
        observation: Observation = NOT_OBSERVED,
    ) -> None:
        self._hosted = hosted
        self._logs = logs
        self._purgatory = purgatory
        self._clock = clock
        self._metrics = metrics
        self._node_id = node_id
        self._listeners = listeners
        self._observation = observation
        self._image: MetadataImage | None = None
        self._is_caught_up = False  # what the image says holds now, and is no history being read

    # --- which there are

    def follow(self, image: MetadataImage, *, is_caught_up: bool = True) -> None:
        """From now on the image says which partitions there are. If it is history still, `metadata_changed` with None
        says when it is not any more."""
        self._image = image
        self._is_caught_up = is_caught_up

    def leader(self, topic: str, partition: int) -> Replica:
        replica = self._hosted.replica((topic, partition))
        if replica is None or topic == METADATA_TOPIC:  # which only its machine reads or writes
            return self._open_known(topic, partition)
        if replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, replica.offline)
        if not replica.is_leader:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        return replica

    def readable(self, topic: str, partition: int) -> Replica:
        """As `leader`, or a follower: consumers may read from either (KIP-392)."""
        replica = self._hosted.replica((topic, partition))
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
        if not self._hosted.may_be_opened((topic, partition)):
            raise Refused(Code.KAFKA_STORAGE_ERROR, self._hosted.why_not_open((topic, partition)))
        placed = known.partitions[partition]
        if placed.leader != self._node_id or not self._is_caught_up:  # it was led by an earlier process of this node
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        replica = self.open(topic, partition, known.id, image.topic_config(topic), placed)
        if replica is None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, self._hosted.why_not_open((topic, partition)))
        return replica

    def open(
        self, topic: str, partition: int, topic_id: bytes, config: TopicConfig, placed: Partition | None = None
    ) -> Replica | None:
        """Open (and recover) a partition's log, to lead or follow as `placed` says; without it, to lead it alone. None
        when it cannot be opened: it is then offline, with the reason kept."""
        name = TopicPartition(topic, partition)
        try:
            replica = self._logs.open(name, topic_id, config)
        except (Corrupt, OSError) as problem:
            self._not_opened(name, topic_id, problem)
            return None
        self._hosted.opened(replica)
        if placed is None:
            replica.lead_alone()
        else:
            self._take_role(replica, placed)
        return replica

    def _not_opened(
        self, name: TopicPartition, topic_id: bytes, problem: Corrupt | OSError, *, was_open: bool = False
    ) -> None:
        """What a shortage keeps from being opened (recovery may have to write) is tried again when it is asked for."""
        before = self._hosted.why_not_open(name)
        self._hosted.not_opened(name, topic_id, problem, was_open=was_open)
        if before != str(problem):
            log.error("%s is offline: %s", name, problem)

    def is_put_off(self, topic: str, partition: int) -> bool:
        """Whether it is not served only because room, descriptors or memory ran out."""
        return self._hosted.is_put_off((topic, partition))

    def on_disk(self) -> list[TopicPartition]:
        """The partitions of the image that have something on disk here, our own topics first."""
        assert self._image is not None  # follow() comes first
        names = self._logs.names()
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
            self._logs.directories.remove_deleted(self._image, self._node_id)

    def held(self) -> Iterator[Replica]:
        """Every replica whose log is open, by topic and partition."""
        return self._hosted.replicas()

    def offline(self) -> dict[tuple[str, int], str]:
        """What is not served, and why."""
        return self._hosted.offline()

    # --- out of service

    def is_damaged(self, topic: str, partition: int) -> bool:
        """Whether what is on disk here is not what was written."""
        return self._hosted.is_damaged((topic, partition))

    def found_damaged(self, replica: Replica, reason: str) -> None:
        """It is offline, and fetched anew once no node counts on it."""
        self._hosted.damaged(replica, reason)  # first: the listeners ask
        self.take_offline(replica, reason)

    def sync_failed(self, replica: Replica, problem: Exception) -> None:
        if not isinstance(problem, OSError):
            self._metrics.faults += 1
        self.take_offline(replica, f"sync failed: {problem}")

    def take_offline(self, replica: Replica, reason: str) -> None:
        if replica.offline is not None:
            return
        log.error("%s-%d is offline: %s", replica.topic, replica.partition, reason)
        replica.take_offline(reason)
        self._purgatory.lost(replica, Code.KAFKA_STORAGE_ERROR)
        self._listeners.went_offline(replica)

    def open_anew(self, replica: Replica, problem: OSError | Interrupted) -> None:
        """A change of its files stopped half way: it is opened anew as after a crash, if only something ran out."""
        cause = problem.problem if isinstance(problem, Interrupted) else problem
        if shortage_of(cause) is None:
            self.take_offline(replica, str(problem))
            return
        self._logs.remember(replica)
        name = TopicPartition(replica.topic, replica.partition)
        # First, and everything else before readers are woken: one of them may open it again at once.
        self._not_opened(name, replica.topic_id, cause, was_open=True)
        replica.take_offline("it is opened anew")
        replica.log.abandon()
        self._listeners.removed(replica)
        self._purgatory.lost(replica, Code.KAFKA_STORAGE_ERROR)

    def counts_on_this_copy(self, replica: Replica) -> bool:
        """Whether the controller may make this copy the leader's."""
        placed = self.placed(replica)
        return placed is not None and self._node_id in (*placed.in_sync, *placed.eligible)

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
        replica = self._hosted.replica(key)
        if self._node_id not in placed.replicas:
            return self._drop(TopicPartition(*key), replica)
        if replica is not None and replica.topic_id != topic.id:
            return []  # of an earlier topic of that name: `_drop_gone` sees to it
        if self._hosted.is_damaged(key) and self._others_have(placed):
            self._begin_anew(TopicPartition(*key), topic.id, replica)
            replica = None
        if replica is not None:
            self._take_role(replica, placed)
        elif self._hosted.may_be_opened(key) and (placed.leader not in (self._node_id, NO_LEADER) or topic.is_internal):
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
        if before[1] >= 0:  # not only opened
            if is_new:
                self._observation.observer.leader_changed(replica, *before)
            self.in_sync_changed(replica, in_sync_before)
        if was_leader and not replica.is_leader:
            self._purgatory.lost(replica, Code.NOT_LEADER_OR_FOLLOWER)
        elif has_moved or is_new:
            self._purgatory.moved(replica)
        if is_new:
            self._listeners.role_changed(replica)

    def in_sync_changed(self, replica: Replica, before: tuple[int, ...]) -> None:
        """Its in-sync set was another before."""
        self._observation.observer.in_sync_changed(replica, before)

    def _others_have(self, placed: Partition) -> bool:
        """Whether the cluster does not count on this node's copy, and another node leads."""
        is_led = placed.leader not in (self._node_id, NO_LEADER)
        return is_led and self._node_id not in placed.in_sync and self._node_id not in placed.eligible

    def _begin_anew(self, name: TopicPartition, topic_id: bytes, replica: Replica | None) -> None:
        if replica is not None:
            self._let_go(replica, Code.KAFKA_STORAGE_ERROR)
        try:
            self._logs.directories.move_damaged_aside(name, topic_id)
        except OSError as problem:  # tried again with the next change of the metadata
            log.error("%s is damaged, and cannot be moved aside: %s", name, problem)
            self._hosted.not_moved_aside(name, topic_id, str(problem))
            return
        self._hosted.closed(name)
        self._logs.forget([name])  # on disk too: after a kill, offsets of the old copy would be believed of the new one

    def repair_damaged(self) -> None:
        """Fetch anew what was found damaged, where others have it; open what a shortage kept from being opened."""
        image = self._image
        for name in self._hosted.to_repair():
            topic = image.topic(name.topic) if image is not None else None
            if image is None or topic is None or name.partition >= len(topic.partitions):
                self._hosted.not_repairable(name)
            else:
                self._place(image, topic, name.partition)

    def _drop(self, name: TopicPartition, replica: Replica | None) -> list[str]:
        """It was moved to other nodes."""
        if self._hosted.state(name) is None and not self._logs.is_known(name):
            return []
        log.info("%s is on other nodes now", name)
        self._hosted.closed(name)
        if replica is not None:
            removed = self._remove(replica, Code.NOT_LEADER_OR_FOLLOWER)
        else:
            removed = self._logs.directories.rename_away(str(name), "moved")
        self._logs.forget([name])
        return removed

    def _drop_gone(self, image: MetadataImage) -> list[str]:
        """Drop the partitions of topics that are gone, give the others their settings."""
        removed: list[str] = []
        forgotten: list[TopicPartition] = []
        for replica in list(self._hosted.replicas()):
            topic = replica.topic
            known = image.topic(topic)
            if topic == METADATA_TOPIC:
                continue
            if known is None or known.id != replica.topic_id:
                removed += self._remove(replica, Code.UNKNOWN_TOPIC_OR_PARTITION)
                forgotten.append(TopicPartition(topic, replica.partition))
                continue
            config = image.topic_config(topic)
            if replica.log.config is not config:
                replica.log.config = config
                if replica.recount():  # fewer may have to be in sync than before
                    self._purgatory.moved(replica)
        for name in self._unopened():
            state = self._hosted.state(name)
            if not image.topics and state is None and self._logs.directories.has(name):
                continue  # left behind, and as in `metadata_changed`
            known = image.topic(name.topic)
            # Also if another has its name now: that one has perhaps fewer partitions.
            is_gone = known is None or name.partition >= len(known.partitions)
            is_of_another = known is not None and not (
                state is None or isinstance(state, OpenPartition) or state.topic_id == known.id
            )
            if is_gone or is_of_another:
                self._hosted.closed(name)
                removed += self._logs.directories.rename_away(str(name), "unopened")
                forgotten.append(name)
        if forgotten:
            self._logs.forget(forgotten)
        return removed

    def _drop_left_behind(self, image: MetadataImage) -> list[str]:
        """Drop what is on disk and not this node's, whether a checkpoint knows it or not."""
        removed: list[str] = []
        gone: list[TopicPartition] = []
        for name, topic_id in self._logs.directories.left_behind(image, self._node_id):
            if self._hosted.replica(name) is not None:
                continue
            log.info("%s was deleted, or moved to other nodes, while this node was down", name)
            removed += self._logs.directories.rename_away(str(name), topic_id.hex())
            gone.append(name)
        if any(self._logs.is_known(name) for name in gone):
            self._logs.forget(gone)
        return removed

    def _unopened(self) -> Iterable[TopicPartition]:
        """Partitions that are on disk as far as we know, and not open: not asked for yet, or broken."""
        names = dict.fromkeys((*self._hosted.not_open(), *self._logs.known()))
        return [name for name in names if self._hosted.replica(name) is None and name.topic != METADATA_TOPIC]

    def _remove(self, replica: Replica, code: Code) -> list[str]:
        """Close it and rename its directory: a new topic may have its name. Returns what is left to delete, once the
        deletion is safe (`remove_deleted`)."""
        self._let_go(replica, code)
        return self._logs.directories.rename_away(replica.log.directory, replica.topic_id.hex())

    def _let_go(self, replica: Replica, code: Code) -> None:
        self._hosted.closed((replica.topic, replica.partition))
        replica.take_offline("it is not on this node any more")
        self._purgatory.lost(replica, code)
        replica.log.abandon()
        self._listeners.removed(replica)
