"""What the group coordinator needs of a node's settings."""

from __future__ import annotations

from chronik.core.config.sections.groups import GroupsConfig
from chronik.core.config.sections.offsets import OffsetsConfig
from chronik.core.machines.groups.config import GroupConfig


def group_config(groups: GroupsConfig, offsets: OffsetsConfig) -> GroupConfig:
    """What the coordinator needs of these settings."""
    return GroupConfig(
        initial_rebalance_delay_ms=groups.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=groups.group_min_session_timeout_ms,
        max_session_timeout_ms=groups.group_max_session_timeout_ms,
        max_size=groups.group_max_size,
        consumer_session_timeout_ms=groups.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=groups.group_consumer_heartbeat_interval_ms,
        consumer_max_size=groups.group_consumer_max_size,
        consumer_assignors=groups.group_consumer_assignors,
        can_upgrade=groups.group_consumer_migration_policy in ("bidirectional", "upgrade"),
        can_downgrade=groups.group_consumer_migration_policy in ("bidirectional", "downgrade"),
        offset_metadata_max_bytes=offsets.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=offsets.offsets_commit_timeout_ms,
        offsets_retention_ms=offsets.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=offsets.offsets_retention_check_interval_ms,
    )
