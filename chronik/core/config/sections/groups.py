"""What the group coordinator grants to groups of both protocols."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import INT, LIST, STRING, Section, at_least, one_of, setting, some_of


@dataclass(frozen=True, slots=True)
class GroupsConfig(Section):
    """What the group coordinator grants to groups of both protocols."""

    group_initial_rebalance_delay_ms: int = setting(
        INT, 3_000, "How long a new group waits for more members.", at_least(0)
    )
    group_min_session_timeout_ms: int = setting(INT, 6_000, "The shortest session timeout of a member.", at_least(0))
    group_max_session_timeout_ms: int = setting(INT, 1_800_000, "The longest session timeout of a member.", at_least(0))
    group_max_size: int = setting(INT, 10_000, "The most members of a group.", at_least(1))
    group_consumer_assignors: tuple[str, ...] = setting(
        LIST, ("uniform", "range"), "Server-side assignors; the first is the default.", some_of("uniform", "range")
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        INT, 5_000, "How often a consumer is to send a heartbeat.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(INT, 5_000, "Least heartbeat interval.", at_least(1))
    group_consumer_max_heartbeat_interval_ms: int = setting(INT, 15_000, "Largest heartbeat interval.", at_least(1))
    group_consumer_session_timeout_ms: int = setting(
        INT, 45_000, "A consumer silent for this long is out.", at_least(1)
    )
    group_consumer_min_session_timeout_ms: int = setting(INT, 45_000, "Least session timeout.", at_least(1))
    group_consumer_max_session_timeout_ms: int = setting(INT, 60_000, "Largest session timeout.", at_least(1))
    group_consumer_max_size: int = setting(INT, 10_000, "The most members of a consumer group.", at_least(1))
    group_consumer_migration_policy: str = setting(
        STRING,
        "bidirectional",
        "Which way a group with members may move between the classic and the consumer protocol.",
        one_of("bidirectional", "disabled", "downgrade", "upgrade"),
    )

    def check(self) -> None:
        self.check_order("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        self.check_order("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms")
        self.check_order("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms")
        self.check_order("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms")
        self.check_order("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms")
