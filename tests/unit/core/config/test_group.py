"""A group's settings."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.group import BOUNDS, GROUP_SETTINGS, GroupSettings
from chronik.core.config.node import NODE_SETTINGS, NodeConfig
from chronik.core.config.sections.groups import GroupsConfig

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_what_a_group_does_not_set_is_the_nodes() -> None:
    groups = NodeConfig.from_settings({"group.consumer.session.timeout.ms": "50000"}).groups

    assert GroupSettings.from_overrides(groups, {}) == GroupSettings(5_000, 50_000)
    assert GroupSettings.from_overrides(groups, {SESSION: "46000"}) == GroupSettings(5_000, 46_000)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({SESSION: "1"}, f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: "60001"}, f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        ({HEARTBEAT: "4999"}, f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({HEARTBEAT: "15001"}, f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ({SESSION: "soon"}, f"Invalid value 'soon' for {SESSION}: must be a whole number"),
        ({"share.session.timeout.ms": "1"}, "Unknown group config name: share.session.timeout.ms"),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words(overrides: dict[str, str], message: str) -> None:
    groups = GroupsConfig()

    with pytest.raises(BadConfig) as problem:
        GroupSettings.from_overrides(groups, overrides).checked(groups)
    assert problem.value.message.startswith(message)


def test_a_session_outlasts_a_heartbeat() -> None:
    groups = NodeConfig.from_settings({"group.consumer.min.session.timeout.ms": "1"}).groups

    with pytest.raises(BadConfig, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        GroupSettings.from_overrides(groups, {SESSION: "5000"}).checked(groups)


def test_a_node_with_other_bounds_keeps_to_its_own() -> None:
    made_elsewhere = GroupSettings(100, 600_000)

    assert made_elsewhere.within(GroupsConfig()) == GroupSettings(5_000, 60_000)


def test_every_setting_has_a_node_setting_behind_it_and_bounds() -> None:
    assert set(BOUNDS) == set(GROUP_SETTINGS)
    for known in GROUP_SETTINGS.values():
        assert known.default == NODE_SETTINGS[known.synonyms[0].name].default
