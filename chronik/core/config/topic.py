"""A topic's settings as values. Names are Kafka's with underscores; `definitions` says what each may be."""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 24 * 3600 * 1000
UNLIMITED = -1
FOREVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings in force for one topic: its own, else the node's, else the default."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = FOREVER_MS
    flush_ms: int = FOREVER_MS
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = FOREVER_MS
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = FOREVER_MS
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = UNLIMITED
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    unclean_leader_election_enable: bool = False

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_timed_by_log(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
