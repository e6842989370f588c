"""Committed offsets, and the topic they are kept in."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import INT, LONG, SHORT, Section, at_least, between, setting


@dataclass(frozen=True, slots=True)
class OffsetsConfig(Section):
    """Committed offsets, and the topic they are kept in."""

    offset_metadata_max_bytes: int = setting(INT, 4_096, "The longest note on a committed offset.")
    offsets_commit_timeout_ms: int = setting(
        INT, 5_000, "How long a group's request waits for the log of its coordinator to be safe.", at_least(1)
    )
    offsets_retention_minutes: int = setting(INT, 10_080, "How long offsets of an empty group are kept.", at_least(1))
    offsets_retention_check_interval_ms: int = setting(
        LONG, 600_000, "How often old offsets are looked for.", at_least(1)
    )
    offsets_topic_num_partitions: int = setting(INT, 50, "Partitions of __consumer_offsets.", between(1, 10_000))
    # Kafka refuses to make the topic with fewer nodes than this; here it gets as many replicas as there are nodes, so
    # that a single node works without any setting.
    offsets_topic_replication_factor: int = setting(SHORT, 3, "Replicas of __consumer_offsets, at most.", at_least(1))
    offsets_topic_segment_bytes: int = setting(INT, 100 * 1024**2, "Segment size of __consumer_offsets.", at_least(1))
