"""A topic's settings. Names are Kafka's with underscores; each field says what it may be and what it defaults to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    Allowed,
    BadConfig,
    Synonym,
    any_of,
    at_least,
    between,
    one_of,
    parse_known,
    setting,
    settings_of,
)
from chronik.core.config.throttled import THROTTLED_REPLICAS

if TYPE_CHECKING:
    from chronik.core.config.node import NodeConfig

UNLIMITED = -1
FOREVER_MS = LONG_MAX
MINUTE_MS = 60_000

GZIP_LEVELS = Allowed(lambda level: level == -1 or 1 <= level <= 9, "between 1 and 9, or -1")
LZ4_LEVELS, ZSTD_LEVELS = between(1, 17), between(-131_072, 22)
NO_REMOTE_TIER = Allowed(lambda is_enabled: not is_enabled, "false: tiered storage is not there (docs/gaps.md)")
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
KEPT_AS_PRODUCED = "producer"
_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def _named(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings in force for one topic: its own, else the node's, else the default."""

    chronik_gaps: bool = setting(
        BOOLEAN, False, "Whether offsets may be missing because it was compacted once. The cluster sets it, for good."
    )
    chronik_trace: bool = setting(
        BOOLEAN, False, "Whether what happens to this topic is recorded, step by step.",
        synonyms=_named("chronik.trace"),
    )  # fmt: skip
    cleanup_policy: tuple[str, ...] = setting(
        LIST, ("delete",),
        "What happens to old segments: deleted, or compacted to the last record of each key; empty for neither.",
        any_of("compact", "delete"), synonyms=_named("log.cleanup.policy"),
    )  # fmt: skip
    compression_gzip_level: int = setting(
        INT, -1, "The level for batches that the leader compresses with gzip; -1 is gzip's own default.",
        GZIP_LEVELS, synonyms=_named("compression.gzip.level"),
    )  # fmt: skip
    compression_lz4_level: int = setting(
        INT, 9, "The level for batches that the leader compresses with lz4; 12 to 17 are the same.",
        LZ4_LEVELS, synonyms=_named("compression.lz4.level"),
    )  # fmt: skip
    compression_type: str = setting(
        STRING, "producer",
        "How batches are stored: as the producer compressed them, or compressed anew by the leader where they differ.",
        one_of(*COMPRESSION_TYPES), synonyms=_named("compression.type"),
    )  # fmt: skip
    compression_zstd_level: int = setting(
        INT, 3, "The level for batches that the leader compresses with zstd.",
        ZSTD_LEVELS, synonyms=_named("compression.zstd.level"),
    )  # fmt: skip
    delete_retention_ms: int = setting(
        LONG, DAY_MS, "How long a compacted topic keeps the mark of a deleted key.",
        at_least(0), synonyms=_named("log.cleaner.delete.retention.ms"),
    )  # fmt: skip
    file_delete_delay_ms: int = setting(
        LONG, 60_000, "How long a removed file stays on disk.",
        at_least(0), synonyms=_named("log.segment.delete.delay.ms"),
    )  # fmt: skip
    flush_messages: int = setting(
        LONG, LONG_MAX, "Sync to disk after this many records (without durability=sync).",
        at_least(1), synonyms=_named("log.flush.interval.messages"),
    )  # fmt: skip
    flush_ms: int = setting(
        LONG, LONG_MAX, "Sync to disk after this time (without durability=sync).",
        at_least(0), synonyms=_named("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )  # fmt: skip
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), "Replicas that follower.replication.throttled.rate holds for, as PARTITION:BROKER,...; * for all.",
        THROTTLED_REPLICAS,
    )  # fmt: skip
    index_interval_bytes: int = setting(
        INT, 4096, "Bytes of log between two entries of the offset index.",
        at_least(0), synonyms=_named("log.index.interval.bytes"),
    )  # fmt: skip
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), "Replicas that leader.replication.throttled.rate holds for, as PARTITION:BROKER,...; * for all.",
        THROTTLED_REPLICAS,
    )  # fmt: skip
    local_retention_bytes: int = setting(
        LONG, -2, "Bytes that stay here of a log with a remote tier. Without effect: there is no remote tier.",
        at_least(-2), synonyms=_named("log.local.retention.bytes"),
    )  # fmt: skip
    local_retention_ms: int = setting(
        LONG, -2, "How long records stay here of a log with a remote tier. Without effect: there is no remote tier.",
        at_least(-2), synonyms=_named("log.local.retention.ms"),
    )  # fmt: skip
    max_compaction_lag_ms: int = setting(
        LONG, LONG_MAX, "The longest a record of a compacted topic may stay uncompacted.",
        at_least(1), synonyms=_named("log.cleaner.max.compaction.lag.ms"),
    )  # fmt: skip
    max_message_bytes: int = setting(
        INT, 1_048_588, "The largest record batch that is taken, as it comes (compressed).",
        at_least(0), synonyms=_named("message.max.bytes"),
    )  # fmt: skip
    message_timestamp_after_max_ms: int = setting(
        LONG, HOUR_MS, "How far a producer's timestamp may lie ahead of the node's clock.",
        at_least(0), synonyms=_named("log.message.timestamp.after.max.ms"),
    )  # fmt: skip
    message_timestamp_before_max_ms: int = setting(
        LONG, LONG_MAX, "How far a producer's timestamp may lie behind the node's clock.",
        at_least(0), synonyms=_named("log.message.timestamp.before.max.ms"),
    )  # fmt: skip
    message_timestamp_type: str = setting(
        STRING, "CreateTime", "Whose clock stamps records: the producer's (CreateTime) or the node's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"), synonyms=_named("log.message.timestamp.type"),
    )  # fmt: skip
    min_cleanable_dirty_ratio: float = setting(
        DOUBLE, 0.5, "The share of uncompacted log from which a compacted topic is cleaned.",
        between(0, 1), synonyms=_named("log.cleaner.min.cleanable.ratio"),
    )  # fmt: skip
    min_compaction_lag_ms: int = setting(
        LONG, 0, "The least time a record of a compacted topic stays uncompacted.",
        at_least(0), synonyms=_named("log.cleaner.min.compaction.lag.ms"),
    )  # fmt: skip
    min_insync_replicas: int = setting(
        INT, 1, "In-sync replicas without which acks=all is refused.",
        at_least(1), synonyms=_named("min.insync.replicas"),
    )  # fmt: skip
    preallocate: bool = setting(
        BOOLEAN, False, "Whether to take a segment's disk space when it is made.",
        synonyms=_named("log.preallocate"),
    )  # fmt: skip
    remote_log_copy_disable: bool = setting(
        BOOLEAN, False, "Whether segments are no longer copied to the remote tier. Without effect: there is none."
    )
    remote_log_delete_on_disable: bool = setting(
        BOOLEAN, False, "Whether what the remote tier has goes when it is switched off. Without effect: there is none."
    )
    remote_storage_enable: bool = setting(
        BOOLEAN, False, "Whether the log has a remote tier. There is none, so only false is taken.", NO_REMOTE_TIER
    )
    retention_bytes: int = setting(
        LONG, UNLIMITED, "How large a partition may grow before its oldest segments go; -1 for no limit.",
        synonyms=_named("log.retention.bytes"),
    )  # fmt: skip
    retention_ms: int = setting(
        LONG, 7 * DAY_MS, "How long records are kept; -1 for ever.", at_least(-1),
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
    )  # fmt: skip
    segment_bytes: int = setting(
        INT, 1024**3, "The size at which a segment is closed and the next begun.",
        at_least(14), synonyms=_named("log.segment.bytes"),
    )  # fmt: skip
    segment_index_bytes: int = setting(
        INT, 10 * 1024**2, "The size of the index at which a segment is closed.",
        at_least(4), synonyms=_named("log.index.size.max.bytes"),
    )  # fmt: skip
    segment_jitter_ms: int = setting(
        LONG, 0, "How much of segment.ms may be taken off by chance, so that not all segments close at once.",
        at_least(0), synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
    )  # fmt: skip
    segment_ms: int = setting(
        LONG, 7 * DAY_MS, "The age at which a segment is closed even if it is not full.",
        at_least(1), synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
    )  # fmt: skip
    unclean_leader_election_enable: bool = setting(
        BOOLEAN, False, "Whether a replica that is not in sync may lead when no other can, losing records.",
        synonyms=_named("unclean.leader.election.enable"),
    )  # fmt: skip

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets may be missing in its log: it is compacted, or once was."""
        return self.is_compacted or self.chronik_gaps

    @property
    def may_be_compacted(self) -> bool:
        """Whether its logs may be compacted now: not before the metadata says, to all nodes and for good, that they may
        have gaps. What a node has in its file, or what is the default today, says so to nothing else."""
        return self.is_compacted and self.chronik_gaps

    @property
    def roll_ms(self) -> int:
        """How long a segment is filled: what is in the active one is not compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def checks_each_record(self) -> bool:
        """Whether a batch's header does not say enough to admit it: its records have to be looked at."""
        # The header has the first time and the latest. The earliest may be that of any record.
        return self.is_compacted or (self.message_timestamp_before_max_ms < LONG_MAX and not self.is_timed_by_log)

    @property
    def takes_batches_as_they_come(self) -> bool:
        """Whether a batch's header says all there is to know before it is appended. Asked for each batch."""
        return self.compression_type == KEPT_AS_PRODUCED and not self.checks_each_record

    @property
    def target_compression(self) -> int | None:
        """The codec that all batches are to have, as their attributes say it; None: each its producer's."""
        return _CODECS.get(self.compression_type)

    def level_of(self, compression: int) -> int | None:
        """At which the leader packs with this codec; None: it has no levels."""
        levels = {1: self.compression_gzip_level, 3: self.compression_lz4_level, 4: self.compression_zstd_level}
        return levels.get(compression)

    @property
    def is_timed_by_log(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def from_overrides(cls, node: NodeConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """The topic's own settings over the node's. Raises BadConfig for a key or value that is not allowed."""
        values = {known.attribute: node.topic_default(known.name) for known in TOPIC_SETTINGS.values()}
        for key, text in overrides.items():
            values[key.replace(".", "_")] = parse_known(TOPIC_SETTINGS, key, text, "topic")
        if "cleanup.policy" in overrides and "compact" in values["cleanup_policy"]:
            values["chronik_gaps"] = True
        return cls(**values)

    def checked(self) -> TopicConfig:
        """Itself, when its settings go together. Asked when they are altered, not when they are read: a node's own
        default may clash with what a topic was allowed to set elsewhere."""
        if self.max_compaction_lag_ms < self.min_compaction_lag_ms:
            raise BadConfig(
                "max.compaction.lag.ms",
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms}) must not be less than "
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms})",
            )
        return self


TOPIC_SETTINGS = settings_of(TopicConfig)
