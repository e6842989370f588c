"""Settings as DescribeConfigs tells them."""

from __future__ import annotations

from chronik.core.config.definitions import ConfigType, Source
from chronik.core.config.describe import (
    SHOWN_WHEN_SET,
    ShownConfig,
    ShownSynonym,
    describe_cluster_wide,
    describe_node,
    describe_topic,
)
from chronik.core.config.node import NODE_SETTINGS, NodeConfig
from chronik.core.config.topic import TOPIC_SETTINGS


def by_name(shown: list[ShownConfig]) -> dict[str, ShownConfig]:
    return {config.name: config for config in shown}


def test_a_topic_shows_every_setting_with_type_and_words() -> None:
    shown = by_name(describe_topic(NodeConfig(), {}))

    assert list(shown) == list(TOPIC_SETTINGS)
    assert shown["retention.ms"].value == "604800000"
    assert shown["retention.ms"].source is Source.DEFAULT
    assert shown["retention.ms"].type is ConfigType.LONG
    assert all(config.documentation for config in shown.values())
    # MirrorMaker copies what is not read-only, and Kafka does not know ours.
    assert {name for name, config in shown.items() if config.is_read_only} == {"chronik.gaps", "chronik.trace"}


def test_the_chain_of_a_topic_setting_goes_from_the_topic_to_the_default() -> None:
    node = NodeConfig.from_settings({"log.segment.bytes": "1000"}).with_dynamic(
        {"log.segment.bytes": "2000"}, {"log.segment.bytes": "3000"}
    )

    segment_bytes = by_name(describe_topic(node, {"segment.bytes": "4000"}))["segment.bytes"]

    assert segment_bytes.value == "4000"
    assert segment_bytes.source is Source.TOPIC
    assert segment_bytes.synonyms == (
        ShownSynonym("segment.bytes", "4000", Source.TOPIC),
        ShownSynonym("log.segment.bytes", "3000", Source.DYNAMIC_BROKER),
        ShownSynonym("log.segment.bytes", "2000", Source.DYNAMIC_CLUSTER),
        ShownSynonym("log.segment.bytes", "1000", Source.STATIC_BROKER),
        ShownSynonym("log.segment.bytes", "1073741824", Source.DEFAULT),
    )


def test_a_value_from_the_nodes_file_says_so() -> None:
    node = NodeConfig.from_settings({"log.retention.hours": "1"})

    retention = by_name(describe_topic(node, {}))["retention.ms"]

    assert (retention.value, retention.source) == ("3600000", Source.STATIC_BROKER)
    assert retention.synonyms[0] == ShownSynonym("log.retention.hours", "1", Source.STATIC_BROKER)


def test_a_node_shows_all_its_settings_and_which_can_be_altered() -> None:
    shown = by_name(describe_node(NodeConfig.from_settings({"num.partitions": "3"})))

    assert list(shown) == [name for name in NODE_SETTINGS if name not in SHOWN_WHEN_SET]
    assert (shown["num.partitions"].value, shown["num.partitions"].source) == ("3", Source.STATIC_BROKER)
    assert shown["num.partitions"].is_read_only
    assert not shown["log.retention.ms"].is_read_only
    assert shown["log.retention.ms"].value is None
    assert shown["inter.broker.protocol.version"].value == "4.1-IV1"


def test_the_broker_without_a_name_shows_what_was_altered_for_all() -> None:
    node = NodeConfig().with_dynamic({"message.max.bytes": "5"}, {"log.segment.bytes": "99"})

    shown = describe_cluster_wide(node)

    assert [(config.name, config.value, config.source) for config in shown] == [
        ("message.max.bytes", "5", Source.DYNAMIC_CLUSTER)
    ]


def test_the_rate_of_a_throttle_is_shown_only_where_one_is_set_as_in_kafka() -> None:
    name = "leader.replication.throttled.rate"
    node = NodeConfig.from_settings({})

    assert name not in {shown.name for shown in describe_node(node)}
    (shown,) = (shown for shown in describe_node(node.with_dynamic({}, {name: "5"})) if shown.name == name)
    assert (shown.value, shown.source, shown.is_read_only) == ("5", Source.DYNAMIC_BROKER, False)
