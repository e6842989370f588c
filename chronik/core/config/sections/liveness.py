"""When the controller takes a node for dead, and how it balances leadership."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import BOOLEAN, INT, LONG, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class LivenessConfig(Section):
    """When the controller takes a node for dead, and how it balances leadership."""

    # Kafka's timeouts are two to four times as long; decision 0013 says why ours are not.
    broker_heartbeat_interval_ms: int = setting(INT, 500, "How often a node reports to the controller.", at_least(1))
    broker_session_timeout_ms: int = setting(
        INT, 6_000, "A node that has not reported for this long leads nothing any more.", at_least(1)
    )
    auto_leader_rebalance_enable: bool = setting(
        BOOLEAN, True, "Whether leadership goes back to the preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds: int = setting(LONG, 300, "How often leadership is balanced.", at_least(1))
