"""The settings of the group coordinator. Defaults are Kafka's, but for the sizes: any client may join any group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One node's settings for groups; the comment names Kafka's key where the name alone does not tell it."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 10_000  # group.max.size; Kafka has no limit
    groups_max: int = 100_000  # in one partition of the offsets topic; not a setting
    # How long a JoinGroup of a new member may be parked. Not a setting in Kafka either.
    new_member_join_timeout_ms: int = 300_000

    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_max_size: int = 10_000  # group.consumer.max.size; Kafka has no limit
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors; the first is the default

    can_upgrade: bool = True  # group.consumer.migration.policy is bidirectional or upgrade
    can_downgrade: bool = True  # ... is bidirectional or downgrade

    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
