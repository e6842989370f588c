"""Defaults of topic settings: TOPIC_SETTINGS says which of these stands behind which."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    HOUR_MS,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    Section,
    any_of,
    at_least,
    between,
    one_of,
    setting,
)
from chronik.core.config.topic import COMPRESSION_TYPES, GZIP_LEVELS, LZ4_LEVELS, ZSTD_LEVELS


@dataclass(frozen=True, slots=True)
class LogConfig(Section):
    """Defaults of topic settings: TOPIC_SETTINGS says which of these stands behind which."""

    compression_type: str = setting(
        STRING, "producer", "Default of compression.type.", one_of(*COMPRESSION_TYPES), dynamic=True
    )
    compression_gzip_level: int = setting(INT, -1, "Default of compression.gzip.level.", GZIP_LEVELS, dynamic=True)
    compression_lz4_level: int = setting(INT, 9, "Default of compression.lz4.level.", LZ4_LEVELS, dynamic=True)
    compression_zstd_level: int = setting(INT, 3, "Default of compression.zstd.level.", ZSTD_LEVELS, dynamic=True)
    log_cleaner_delete_retention_ms: int = setting(
        LONG, DAY_MS, "Default of delete.retention.ms.", at_least(0), dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG, LONG_MAX, "Default of max.compaction.lag.ms.", at_least(1), dynamic=True
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE, 0.5, "Default of min.cleanable.dirty.ratio.", between(0, 1), dynamic=True
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG, 0, "Default of min.compaction.lag.ms.", at_least(0), dynamic=True
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        LIST, ("delete",), "Default of cleanup.policy.", any_of("compact", "delete"), dynamic=True
    )
    log_flush_interval_messages: int = setting(LONG, LONG_MAX, "Default of flush.messages.", at_least(1), dynamic=True)
    log_flush_interval_ms: int | None = setting(LONG, None, "Default of flush.ms.", dynamic=True)
    log_flush_scheduler_interval_ms: int = setting(
        LONG, LONG_MAX, "Default of flush.ms, if log.flush.interval.ms is not set."
    )
    log_index_interval_bytes: int = setting(INT, 4_096, "Default of index.interval.bytes.", at_least(0), dynamic=True)
    log_index_size_max_bytes: int = setting(
        INT, 10 * 1024**2, "Default of segment.index.bytes.", at_least(4), dynamic=True
    )
    log_local_retention_bytes: int = setting(LONG, -2, "Default of local.retention.bytes.", at_least(-2), dynamic=True)
    log_local_retention_ms: int = setting(LONG, -2, "Default of local.retention.ms.", at_least(-2), dynamic=True)
    log_message_timestamp_after_max_ms: int = setting(
        LONG, HOUR_MS, "Default of message.timestamp.after.max.ms.", at_least(0), dynamic=True
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG, LONG_MAX, "Default of message.timestamp.before.max.ms.", at_least(0), dynamic=True
    )
    log_message_timestamp_type: str = setting(
        STRING, "CreateTime", "Default of message.timestamp.type.", one_of("CreateTime", "LogAppendTime"), dynamic=True
    )
    log_preallocate: bool = setting(BOOLEAN, False, "Default of preallocate.", dynamic=True)
    log_retention_bytes: int = setting(LONG, -1, "Default of retention.bytes.", dynamic=True)
    log_retention_hours: int = setting(INT, 168, "Default of retention.ms, in hours, if no finer one is set.")
    log_retention_minutes: int | None = setting(
        INT, None, "Default of retention.ms, in minutes, before log.retention.hours."
    )
    log_retention_ms: int | None = setting(LONG, None, "Default of retention.ms, before the two others.", dynamic=True)
    log_roll_hours: int = setting(INT, 168, "Default of segment.ms, in hours, if log.roll.ms is not set.", at_least(1))
    log_roll_jitter_hours: int = setting(INT, 0, "Default of segment.jitter.ms, in hours.", at_least(0))
    log_roll_jitter_ms: int | None = setting(LONG, None, "Default of segment.jitter.ms.", at_least(0), dynamic=True)
    log_roll_ms: int | None = setting(LONG, None, "Default of segment.ms.", at_least(1), dynamic=True)
    log_segment_bytes: int = setting(INT, 1024**3, "Default of segment.bytes.", at_least(14), dynamic=True)
    log_segment_delete_delay_ms: int = setting(
        LONG, 60_000, "Default of file.delete.delay.ms.", at_least(0), dynamic=True
    )
    message_max_bytes: int = setting(INT, 1_048_588, "Default of max.message.bytes.", at_least(0), dynamic=True)
    min_insync_replicas: int = setting(
        INT, 1, "In-sync replicas without which acks=all is refused.", at_least(1), dynamic=True
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN, False, "Default of unclean.leader.election.enable.", dynamic=True
    )

    def check(self) -> None:
        self.check_order("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
