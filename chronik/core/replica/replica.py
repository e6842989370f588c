"""A copy of a partition on this node: the one place that knows how far it is safe.

Three offsets, one source of truth each: the log's start and end belong to the log, the high watermark belongs here.
An in-sync replica counts up to where its write is *safe*: synced to disk, or with `durability = "os"` written.
The watermark is the smallest of those ends, and it never moves back.
"""

from __future__ import annotations

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.log import Appended, Log
from chronik.core.log.segment import Slice
from chronik.core.records.batch import accept

READ_COMMITTED = 1
ACKS_ALL = -1


class Replica:
    """This node's copy of a partition."""

    __slots__ = (
        "_is_synced",
        "_safe_ends",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "log",
        "node_id",
        "offline",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        log: Log,
        *,
        node_id: int,
        leader_epoch: int,
        in_sync: tuple[int, ...],
        is_synced: bool,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.in_sync = in_sync
        self._is_synced = is_synced  # durability = "sync"
        self.offline: str | None = None  # why it is not served; None while it is
        # What a log holds when it is opened was recovered from disk, so it is safe here.
        self._safe_ends: dict[int, int] = dict.fromkeys(in_sync, log.end_offset)
        self.high_watermark = log.end_offset

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    def is_synced(self) -> bool:
        """Whether an acknowledgement waits for the disk: always, or because the topic has every message flushed."""
        return self._is_synced or self.log.config.flush_messages == 1

    @property
    def is_flush_due(self) -> bool:
        """Whether so much has been written since the last sync that the topic's `flush.messages` asks for one."""
        return self.log.end_offset - self.log.synced_offset >= self.log.config.flush_messages

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided. There are no transactions yet, so it is the watermark."""
        return self.high_watermark

    @property
    def safe_end(self) -> int:
        """Up to where this node alone has it safely: what acks=1 waits for."""
        return self._safe_ends[self.node_id]

    def readable_bound(self, isolation_level: int) -> int:
        """Consumers read below this."""
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def check_epoch(self, leader_epoch: int) -> None:
        """Refuse a client that believes in another leader than this one (KIP-320); -1 means it does not say."""
        if leader_epoch == -1 or leader_epoch == self.leader_epoch:
            return
        if leader_epoch < self.leader_epoch:
            raise Refused(Code.FENCED_LEADER_EPOCH)
        raise Refused(Code.UNKNOWN_LEADER_EPOCH)

    def append(self, records: memoryview | bytearray, acks: int, now_ms: int) -> Appended:
        """Take a producer's batch. Safe only when the watermark (acks=all) or `safe_end` (acks=1) has passed it."""
        if acks == ACKS_ALL and len(self.in_sync) < self.log.config.min_insync_replicas:
            raise Refused(Code.NOT_ENOUGH_REPLICAS)
        header = accept(records)
        if header.is_transactional:  # as Kafka answers a transaction without a transactional id; there are none yet
            raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported yet")
        appended = self.log.append(records, header, self.leader_epoch, now_ms)
        if not self.is_synced:
            self.replica_safe(self.node_id, self.log.end_offset)
        return appended

    def replica_safe(self, node_id: int, end_offset: int) -> bool:
        """Replica `node_id` has everything below `end_offset` safely. True when the watermark moved."""
        # Acknowledgements may come twice or out of order: only the furthest counts.
        if end_offset > self._safe_ends[node_id]:
            self._safe_ends[node_id] = end_offset
        safe = min(self._safe_ends.values())
        if safe <= self.high_watermark:
            return False
        self.high_watermark = safe
        return True

    def read(self, fetch_offset: int, max_bytes: int, isolation_level: int, *, at_least_one: bool) -> Slice | None:
        """What a consumer may have from `fetch_offset` on; None when it has to wait for more."""
        log = self.log
        if fetch_offset < log.start_offset or fetch_offset > log.end_offset:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        bound = self.readable_bound(isolation_level)
        if fetch_offset >= bound:
            return None
        return log.read(fetch_offset, bound, max_bytes, at_least_one=at_least_one)

    def delete_records(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the watermark). Returns the log start that then holds."""
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return self.log.start_offset

    def take_offline(self, reason: str) -> None:
        """Serve nothing of it any more: its disk failed, or its bytes are not what was written."""
        self.offline = reason
