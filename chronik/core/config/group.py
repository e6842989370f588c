"""A group's settings: those of KIP-848 groups that can be set for one group. The node's stand behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronik.core.config.definitions import INT, BadConfig, Synonym, at_least, parse_known, setting, settings_of

if TYPE_CHECKING:
    from chronik.core.config.sections.groups import GroupsConfig

HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
# By setting, the node settings that say how small and how large it may be.
BOUNDS = {
    HEARTBEAT: ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    SESSION: ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings in force for one group: its own, else the node's."""

    consumer_heartbeat_interval_ms: int = setting(
        INT, 5_000, "How often a consumer of this group is to send a heartbeat.",
        at_least(1), synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
    )  # fmt: skip
    consumer_session_timeout_ms: int = setting(
        INT, 45_000, "A consumer of this group that is silent for this long is out.",
        at_least(1), synonyms=(Synonym("group.consumer.session.timeout.ms"),),
    )  # fmt: skip

    @classmethod
    def from_overrides(cls, groups: GroupsConfig, overrides: Mapping[str, str]) -> GroupSettings:
        """The group's own settings over the node's. Raises BadConfig for a key or value that is not allowed."""
        values = {
            known.attribute: getattr(groups, known.synonyms[0].name.replace(".", "_"))
            for known in GROUP_SETTINGS.values()
        }
        for key, text in overrides.items():
            values[key.replace(".", "_")] = parse_known(GROUP_SETTINGS, key, text, "group")
        return cls(**values)

    def checked(self, groups: GroupsConfig) -> GroupSettings:
        """Itself, when its settings are within the node's bounds and go together. Raises BadConfig."""
        for name, (low, high) in BOUNDS.items():
            value, lowest, highest = self._bounded(groups, name)
            if value < lowest:
                raise BadConfig(name, f"{name} must be greater than or equal to {low}")
            if value > highest:
                raise BadConfig(name, f"{name} must be less than or equal to {high}")
        if self.consumer_session_timeout_ms <= self.consumer_heartbeat_interval_ms:
            raise BadConfig(SESSION, f"{SESSION} must be greater than {HEARTBEAT}")
        return self

    def within(self, groups: GroupsConfig) -> GroupSettings:
        """The same, brought within the bounds of this node: they may be others than when the settings were made."""
        values: dict[str, int] = {}
        for name in BOUNDS:
            value, lowest, highest = self._bounded(groups, name)
            values[name.replace(".", "_")] = min(max(value, lowest), highest)
        return GroupSettings(**values)

    def _bounded(self, groups: GroupsConfig, name: str) -> tuple[int, int, int]:
        """A setting, and the least and the largest that it may be."""
        low, high = (getattr(groups, bound.replace(".", "_")) for bound in BOUNDS[name])
        return getattr(self, name.replace(".", "_")), low, high


GROUP_SETTINGS = settings_of(GroupSettings)
