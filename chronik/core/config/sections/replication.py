"""How followers fetch, when they are in sync, and how much throttled ones may take."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import INT, LONG, LONG_MAX, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class ReplicationConfig(Section):
    """How followers fetch, when they are in sync, and how much throttled ones may take."""

    replica_fetch_wait_max_ms: int = setting(
        INT, 500, "How long a follower's fetch waits for something new.", at_least(1)
    )
    replica_fetch_max_bytes: int = setting(INT, 1024**2, "Bytes a follower asks of one partition.", at_least(1))
    replica_fetch_response_max_bytes: int = setting(
        INT, 10 * 1024**2, "Bytes a follower asks of all partitions together.", at_least(1)
    )
    replica_lag_time_max_ms: int = setting(
        LONG, 30_000, "A replica that lags longer than this is not in sync.", at_least(1)
    )
    leader_replication_throttled_rate: int = setting(
        LONG, LONG_MAX,
        "Bytes a second that this node gives as a leader to throttled replicas that are not in sync.",
        at_least(0), dynamic=True,
    )  # fmt: skip
    follower_replication_throttled_rate: int = setting(
        LONG, LONG_MAX,
        "Bytes a second that this node fetches as a follower for throttled replicas that are not in sync.",
        at_least(0), dynamic=True,
    )  # fmt: skip
    replication_quota_window_num: int = setting(
        INT, 11, "Windows that the rates of throttled replicas are measured over.", at_least(1)
    )
    replication_quota_window_size_seconds: int = setting(INT, 1, "The length of one of those windows.", at_least(1))
