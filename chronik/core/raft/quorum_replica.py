"""This node's copy of the quorum's log: a replica whose leader and watermark are the quorum's, not the metadata's."""

from __future__ import annotations

from collections.abc import Callable

from chronik.core.errors import Code, Refused
from chronik.core.log.appended import Appended
from chronik.core.log.log import Log
from chronik.core.log.producers import VerificationGuard
from chronik.core.records.batch import accept
from chronik.core.replica.replica import NO_LEADER, Replica


class QuorumReplica(Replica):
    """Written to by the leader of an epoch, and synced before anything counts, whatever `durability` says."""

    __slots__ = ("_synced",)

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        log: Log,
        *,
        node_id: int,
        synced: Callable[[], None],
    ) -> None:
        """`synced` is called when more of it is on disk."""
        # How far it is safe is not known before a leader says so, whatever this node once knew.
        super().__init__(topic, partition, topic_id, log, node_id=node_id, is_synced=True, high_watermark=0)
        self._synced = synced

    def lead(
        self, leader_epoch: int, partition_epoch: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], now_ms: int
    ) -> bool:
        """Only the quorum decides it."""
        return False

    def set_office(self, epoch: int, leader: int | None) -> None:
        """Which node leads, as the quorum has it."""
        self.leader_epoch = epoch
        self.leader_id = NO_LEADER if leader is None else leader
        self.is_leader = leader == self.node_id

    def append(
        self, records: memoryview | bytearray, acks: int, now_ms: int, guard: VerificationGuard | None = None
    ) -> Appended:
        if not self.is_leader:
            raise Refused(Code.NOT_CONTROLLER)
        return self.log.append(records, accept(records), self.leader_epoch, now_ms)

    def own_safe(self, end_offset: int) -> bool:
        """More of it is on disk; what that makes safe, the quorum says."""
        self.durable_end_offset = max(self.durable_end_offset, end_offset)
        self._synced()
        return False

    def set_watermark(self, end_offset: int) -> None:
        self.high_watermark = max(self.high_watermark, end_offset)

    def cut(self) -> None:
        """The log has been truncated or replaced."""
        self.durable_end_offset = self.log.synced_offset
        self.high_watermark = max(min(self.high_watermark, self.log.end_offset), self.log.start_offset)
