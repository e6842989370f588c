"""The logs of this node's partitions as files: opened and recovered, checkpointed, renamed away, closed (Kafka's
`LogManager`).

It owns the checkpoints and the directories below the data directory. A checkpoint never says more than is on disk, and
what a change of files makes untrue is taken out of the checkpoints first: a crash in between is then no damage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.log import Log
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import Clock, Files
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import SYNCED, Checkpoints
from chronik.node.replication.directories import Directories
from chronik.node.replication.hosted_partitions import HostedPartitions

log = logging.getLogger(__name__)


class PartitionLogs:
    """Opens and closes logs, and keeps on disk what the next start has to know of them."""

    def __init__(
        self,
        files: Files,
        checkpoints: Checkpoints,
        clock: Clock,
        hosted: HostedPartitions,
        *,
        node_id: int,
        is_synced: bool,
        data_dir: str,
        metadata_log_synced: Callable[[], None],
    ) -> None:
        self._files = files
        self.checkpoints = checkpoints
        self._clock = clock
        self._hosted = hosted
        self._node_id = node_id
        self._is_synced = is_synced
        self.data_dir = data_dir
        self._metadata_log_synced = metadata_log_synced
        self.directories = Directories(files, checkpoints)

    # --- opening and closing

    def open(self, name: TopicPartition, topic_id: bytes, config: TopicConfig) -> Replica:
        """Open (and recover) a partition's log. Raises Corrupt, OSError."""
        checkpoints = self.checkpoints
        if self.directories.is_stray(name, topic_id):
            self.forget([name])
            self.directories.move_stray_aside(name, topic_id)
        opened = Log.open(
            self._files,
            str(name),
            config,
            self._clock.now_ms(),
            was_clean=checkpoints.was_clean and not self._hosted.was_open(name),
            synced_offset=checkpoints.recovery_point(name),
            log_start_offset=checkpoints.starts.get(name, 0),
            clean_offset=checkpoints.cleaned.get(name, 0),
        )
        self._sync_recovered(opened)
        self._count_recovered(name, opened)
        if opened.recovery.cut_bytes or opened.recovery.rebuilt_indexes:
            log.warning("%s was recovered: %s", name, opened.recovery)
        topic, partition = name.topic, name.partition
        if topic == METADATA_TOPIC:  # led by the node that the quorum elects, and safe as far as the quorum says
            return QuorumReplica(
                topic, partition, topic_id, opened, node_id=self._node_id, synced=self._metadata_log_synced
            )
        return Replica(
            topic,
            partition,
            topic_id,
            opened,
            node_id=self._node_id,
            is_synced=self._is_synced,
            high_watermark=checkpoints.watermarks.get(name, 0),
        )

    def _sync_recovered(self, opened: Log) -> None:
        """What was found after a crash may be in memory only; it counts as safe once it has been synced."""
        files, end_offset = opened.unsynced()
        for file in files:
            file.sync()
        opened.mark_synced(end_offset)

    def _count_recovered(self, name: TopicPartition, opened: Log) -> None:
        """As in a round of syncs: what is in a later segment counts when the recovery point says so."""
        if not opened.is_on_disk(opened.end_offset):
            self.checkpoints.synced[name] = opened.end_offset
            self.checkpoints.write(self._hosted.replicas())
            opened.recovery_point.stored(opened.end_offset)

    def close_all(self) -> None:
        """After the last append: sync and close every log. Raises OSError if one cannot be, after trying the others."""
        problems: list[OSError] = []
        for replica in self._hosted.replicas():
            if replica.offline is None:
                try:
                    self._sync_recovered(replica.log)
                    replica.log.close()
                except OSError as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]

    # --- what the next start has to know

    def is_known(self, name: TopicPartition) -> bool:
        """Whether a checkpoint says that there is something on disk."""
        return name in self.checkpoints.synced

    def known(self) -> Iterable[TopicPartition]:
        return self.checkpoints.synced

    def remember(self, replica: Replica) -> None:
        """It is closed, to be opened anew."""
        self.checkpoints.remember(replica)

    def forget(self, gone: list[TopicPartition]) -> None:
        """At once, also on disk: after a crash a new topic of that name would seem to have lost what the old had."""
        self.checkpoints.forget(gone)
        try:
            self.checkpoints.write(self._hosted.replicas())
        except OSError as problem:  # housekeeping tries again in a few seconds
            log.warning("checkpoints: %s", problem)

    def announce_cuts(self, cuts: Sequence[tuple[Log, int]]) -> None:
        """Have it on disk that these logs are about to end there: as it was written last, they would be taken for
        damaged. Raises OSError: then all are as they were."""
        known = [(one, one.synced_offset, one.start_offset) for one, _ in cuts]
        for one, offset in cuts:
            one.expect_cut(offset)
        try:
            self.checkpoints.write(self._hosted.replicas())
        except OSError:
            for one, synced_offset, start_offset in known:
                one.synced_offset, one.start_offset = synced_offset, start_offset
            raise

    async def store_checkpoints(self) -> None:
        """Raises OSError."""
        await self.checkpoints.write_later(self._hosted.replicas)

    async def store_recovery_points(self) -> None:
        """Raises OSError."""
        await self.checkpoints.write_later(self._hosted.replicas, (SYNCED,))

    async def store_starts(self) -> None:
        """Put on disk where each log starts now. Raises Refused."""
        try:
            await self.store_checkpoints()
        except OSError as problem:
            raise Refused(Code.KAFKA_STORAGE_ERROR, f"the log start cannot be stored: {problem}") from problem

    def stored_start(self, replica: Replica) -> int:
        """Where its log begins at least, after whatever crash."""
        return self.checkpoints.stored_start(TopicPartition(replica.topic, replica.partition))

    # --- the disk

    def disk_bytes(self) -> tuple[int, int]:
        """Total and free bytes of the disk below the data directory."""
        return self._files.disk_bytes()

    def names(self) -> set[str]:
        """What is in the data directory."""
        return set(self._files.names(""))
