"""A node's settings: names, addresses, layers."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NODE_SETTINGS, SECTION_OF, SECTIONS, NodeConfig, passed_over


def test_a_node_without_settings_has_kafkas_defaults() -> None:
    config = NodeConfig.from_settings({})

    assert config == NodeConfig()
    assert config.topics.auto_create_topics_enable
    assert config.groups.group_initial_rebalance_delay_ms == 3_000
    assert config.offsets.offsets_topic_num_partitions == 50
    assert config.server.durability == "sync"


def test_every_default_is_a_value_that_may_be_set() -> None:
    for known in NODE_SETTINGS.values():
        text = known.show(known.default)
        if text is not None:
            assert known.parse(text) == known.default, known.name


def test_settings_are_taken_under_kafkas_names() -> None:
    config = NodeConfig.from_settings({"num.partitions": "3", "broker.rack": "a", "auto.create.topics.enable": "false"})

    assert (config.topics.num_partitions, config.topics.auto_create_topics_enable) == (3, False)
    assert config.server.broker_rack == "a"
    assert config.given == {"num.partitions": "3", "broker.rack": "a", "auto.create.topics.enable": "false"}


def test_old_names_mean_the_new_ones() -> None:
    config = NodeConfig.from_settings({"broker.id": "7", "log.dir": "here"})

    assert (config.node_id, config.server.log_dirs) == (7, "here")


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(BadConfig) as caught:
        NodeConfig.from_settings({"num.partition": "3"})

    assert caught.value.nearest == "num.partitions"


def test_keys_of_a_kafka_broker_that_mean_nothing_here_are_passed_over_and_told() -> None:
    values = {"num.network.threads": "3", "process.roles": "broker,controller", "num.partitions": "2"}

    assert NodeConfig.from_settings(values).topics.num_partitions == 2
    assert passed_over(values) == ["num.network.threads", "process.roles"]


def test_what_is_altered_for_one_node_wins_over_what_is_altered_for_all() -> None:
    started = NodeConfig.from_settings({"log.segment.bytes": "1000", "message.max.bytes": "7"})

    config = started.with_dynamic({"log.segment.bytes": "2000", "log.retention.ms": "5"}, {"log.segment.bytes": "3000"})

    assert config.log.log_segment_bytes == 3000
    assert config.topic_default("retention.ms") == 5
    assert config.log.message_max_bytes == 7
    assert started.with_dynamic({}, {}) == started


def test_a_config_made_by_hand_keeps_its_values_under_what_is_altered() -> None:
    config = NodeConfig.from_settings({"num.partitions": "4"}).with_dynamic({"message.max.bytes": "9"}, {})

    assert (config.topics.num_partitions, config.log.message_max_bytes) == (4, 9)


def test_every_setting_is_in_one_section_that_says_its_value() -> None:
    config = NodeConfig()

    assert len(NODE_SETTINGS) == sum(len(settings) for settings in SECTIONS.values())
    assert {key: config.value_of(key) for key in NODE_SETTINGS} == {
        key: known.default for key, known in NODE_SETTINGS.items()
    }


@pytest.mark.parametrize("key", ["replica.fetch.max.bytes", "log.segment.bytes", "group.max.size"])
def test_a_value_goes_to_the_section_that_has_the_setting(key: str) -> None:
    config = NodeConfig.from_settings({key: "5000"})

    changed = [name for name in SECTIONS if getattr(config, name) != getattr(NodeConfig(), name)]
    assert changed == [SECTION_OF[key]]
    assert config.value_of(key) == 5000


def test_what_was_altered_goes_back_to_what_the_node_was_started_with() -> None:
    started = NodeConfig.from_settings({"log.segment.bytes": "1000"})

    altered = started.with_dynamic({"log.segment.bytes": "2000"}, {})

    assert altered.log.log_segment_bytes == 2000
    assert started.with_dynamic({}, {}).log == started.log
