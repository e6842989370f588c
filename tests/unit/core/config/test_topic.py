"""A topic's settings: its own over the node's over the default."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NODE_SETTINGS, NodeConfig
from chronik.core.config.topic import TOPIC_SETTINGS, TopicConfig

HOUR_MS = 3_600_000


def test_a_topic_that_sets_nothing_has_kafkas_defaults() -> None:
    assert TopicConfig.from_overrides(NodeConfig(), {}) == TopicConfig()


def test_a_node_that_is_started_without_settings_gives_topics_the_same_defaults() -> None:
    """A node that is started without settings gives topics the same defaults as the table."""
    # Defaults stand in two places, as in Kafka: at the topic's key and at the node's. They must not drift apart.
    node = NodeConfig.from_settings({})

    for known in TOPIC_SETTINGS.values():
        assert node.topic_default(known.name) == known.default, known.name


# A topic's own fate, and what Kafka has for topics only.
WITHOUT_DEFAULT_OF_THE_NODE = {
    "chronik.gaps",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
}


def test_every_synonym_is_a_node_setting() -> None:
    for known in TOPIC_SETTINGS.values():
        assert known.synonyms or known.name in WITHOUT_DEFAULT_OF_THE_NODE, known.name
        for synonym in known.synonyms:
            assert synonym.name in NODE_SETTINGS


def test_the_topics_own_setting_wins_over_the_nodes() -> None:
    node = NodeConfig.from_settings({"log.segment.bytes": "2000", "message.max.bytes": "3000"})

    config = TopicConfig.from_overrides(node, {"segment.bytes": "1000", "cleanup.policy": "compact,delete"})

    assert config.segment_bytes == 1000
    assert config.max_message_bytes == 3000
    assert config.cleanup_policy == ("compact", "delete")
    assert config.is_compacted


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.minutes": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "1"}, -1),
    ],
)
def test_retention_comes_from_the_finest_unit_that_is_set(given: dict[str, str], retention_ms: int) -> None:
    config = TopicConfig.from_overrides(NodeConfig.from_settings(given), {})

    assert config.retention_ms == retention_ms


def test_segments_roll_by_hours_unless_milliseconds_are_set() -> None:
    assert NodeConfig.from_settings({"log.roll.hours": "1"}).topic_default("segment.ms") == HOUR_MS
    assert NodeConfig.from_settings({"log.roll.hours": "1", "log.roll.ms": "5"}).topic_default("segment.ms") == 5


def test_an_unknown_or_bad_setting_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"Unknown topic config name: retention\.msec; did you mean retention\.ms\?"):
        TopicConfig.from_overrides(NodeConfig(), {"retention.msec": "1"})
    with pytest.raises(BadConfig, match="must be at least -1"):
        TopicConfig.from_overrides(NodeConfig(), {"retention.ms": "-2"})
    with pytest.raises(BadConfig, match="Unknown topic config name"):
        TopicConfig.from_overrides(NodeConfig(), {"retention_ms": "1"})


def test_the_two_compaction_lags_must_go_together() -> None:
    config = TopicConfig.from_overrides(NodeConfig(), {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})

    with pytest.raises(BadConfig, match=r"max\.compaction\.lag\.ms \(5\) must not be less"):
        config.checked()
    assert TopicConfig().checked() == TopicConfig()


def test_log_append_time_is_the_nodes_clock() -> None:
    assert TopicConfig(message_timestamp_type="LogAppendTime").is_timed_by_log
    assert not TopicConfig().is_timed_by_log


def test_settings_of_tiers_and_levels_are_taken_and_shown() -> None:
    # MirrorMaker copies all of a topic's settings: one that is unknown makes it lose the others too.
    overrides = {
        "compression.gzip.level": "-1",
        "compression.lz4.level": "17",
        "compression.zstd.level": "-131072",
        "local.retention.bytes": "-2",
        "local.retention.ms": "5",
        "remote.log.copy.disable": "true",
        "remote.log.delete.on.disable": "true",
        "remote.storage.enable": "false",
    }

    config = TopicConfig.from_overrides(NodeConfig(), overrides)

    shown = {name: TOPIC_SETTINGS[name].show(getattr(config, TOPIC_SETTINGS[name].attribute)) for name in overrides}
    assert shown == overrides


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("local.retention.ms", "-3"),
    ],
)
def test_a_level_that_kafka_does_not_have_is_refused(key: str, text: str) -> None:
    with pytest.raises(BadConfig, match=key):
        TopicConfig.from_overrides(NodeConfig(), {key: text})


def test_a_remote_tier_is_refused_by_name() -> None:
    with pytest.raises(BadConfig, match=r"remote\.storage\.enable: must be false: tiered storage is not there"):
        TopicConfig.from_overrides(NodeConfig(), {"remote.storage.enable": "true"})


def test_an_empty_cleanup_policy_neither_deletes_nor_compacts() -> None:
    config = TopicConfig.from_overrides(NodeConfig(), {"cleanup.policy": ""})

    assert config.cleanup_policy == ()
    assert not config.is_compacted
