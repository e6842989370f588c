"""A node's settings: names, addresses, layers."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NODE_SETTINGS, NodeConfig, passed_over


def test_a_node_without_settings_has_kafkas_defaults() -> None:
    config = NodeConfig.from_settings({})

    assert config == NodeConfig()
    assert config.auto_create_topics_enable
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert config.offsets_topic_num_partitions == 50
    assert config.durability == "sync"


def test_every_default_is_a_value_that_may_be_set() -> None:
    for known in NODE_SETTINGS.values():
        text = known.show(known.default)
        if text is not None:
            assert known.parse(text) == known.default, known.name


def test_settings_are_taken_under_kafkas_names() -> None:
    config = NodeConfig.from_settings({"num.partitions": "3", "broker.rack": "a", "auto.create.topics.enable": "false"})

    assert (config.num_partitions, config.broker_rack, config.auto_create_topics_enable) == (3, "a", False)
    assert config.given == {"num.partitions": "3", "broker.rack": "a", "auto.create.topics.enable": "false"}


def test_old_names_mean_the_new_ones() -> None:
    config = NodeConfig.from_settings({"broker.id": "7", "log.dir": "here"})

    assert (config.node_id, config.log_dirs) == (7, "here")


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(BadConfig) as caught:
        NodeConfig.from_settings({"num.partition": "3"})

    assert caught.value.nearest == "num.partitions"


def test_keys_of_a_kafka_broker_that_mean_nothing_here_are_passed_over_and_told() -> None:
    values = {"num.network.threads": "3", "process.roles": "broker,controller", "num.partitions": "2"}

    assert NodeConfig.from_settings(values).num_partitions == 2
    assert passed_over(values) == ["num.network.threads", "process.roles"]


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("PLAINTEXT://127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("PLAINTEXT://:9092,CONTROLLER://:9093", ("", 9092)),
        ("EXTERNAL://[::1]:0", ("::1", 0)),
    ],
)
def test_the_listener_for_clients_is_found(listeners: str, address: tuple[str, int]) -> None:
    assert NodeConfig.from_settings({"listeners": listeners}).address == address


@pytest.mark.parametrize(
    "listeners",
    ["SSL://h:1", "SASL_SSL://h:1", "PLAINTEXT://h", "h:65536", "h:x", "h:²", "a:1,b:2", "CONTROLLER://:9093", ""],
)
def test_a_listener_that_cannot_be_is_refused_when_the_config_is_read(listeners: str) -> None:
    with pytest.raises(BadConfig) as caught:
        NodeConfig.from_settings({"listeners": listeners})

    assert caught.value.key == "listeners"


@pytest.mark.parametrize(
    ("given", "advertised"),
    [
        ({"listeners": "10.0.0.1:1"}, ("10.0.0.1", 1)),
        ({"listeners": "0.0.0.0:1"}, ("localhost", 1)),
        ({"listeners": "PLAINTEXT://:1"}, ("localhost", 1)),
        ({"listeners": "0.0.0.0:1", "advertised.listeners": "PLAINTEXT://node.example:2"}, ("node.example", 2)),
    ],
)
def test_clients_are_told_an_address_they_can_reach(given: dict[str, str], advertised: tuple[str, int]) -> None:
    assert NodeConfig.from_settings(given).advertised_address == advertised


def test_the_http_address_may_be_left_out() -> None:
    assert NodeConfig().http_host_and_port == ("127.0.0.1", 9644)
    assert NodeConfig(http_address="").http_host_and_port is None
    with pytest.raises(BadConfig):
        NodeConfig.from_settings({"http.address": "nowhere"})


def test_limits_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(BadConfig, match=r"group\.min\.session\.timeout\.ms \(9\) must not be larger"):
        NodeConfig.from_settings({"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"})


def test_what_is_altered_for_one_node_wins_over_what_is_altered_for_all() -> None:
    started = NodeConfig.from_settings({"log.segment.bytes": "1000", "message.max.bytes": "7"})

    config = started.with_dynamic({"log.segment.bytes": "2000", "log.retention.ms": "5"}, {"log.segment.bytes": "3000"})

    assert config.log_segment_bytes == 3000
    assert config.topic_default("retention.ms") == 5
    assert config.message_max_bytes == 7
    assert started.with_dynamic({}, {}) == started


def test_a_config_made_by_hand_keeps_its_values_under_what_is_altered() -> None:
    config = NodeConfig(num_partitions=4).with_dynamic({"message.max.bytes": "9"}, {})

    assert (config.num_partitions, config.message_max_bytes) == (4, 9)


def test_some_addresses_have_another_limit_of_connections() -> None:
    config = NodeConfig.from_settings({"max.connections.per.ip.overrides": "10.0.0.1:5, ::1:7,[fe80::2]:9"})

    assert config.connection_overrides == {"10.0.0.1": 5, "::1": 7, "fe80::2": 9}


@pytest.mark.parametrize("text", ["10.0.0.1", "a.host:5", "10.0.0.1:-1", "10.0.0.1:many"])
def test_overrides_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadConfig, match=r"max\.connections\.per\.ip\.overrides"):
        NodeConfig.from_settings({"max.connections.per.ip.overrides": text})


def test_the_memory_of_requests_holds_the_largest_request() -> None:
    with pytest.raises(BadConfig, match=r"must be at least socket\.request\.max\.bytes"):
        NodeConfig.from_settings({"queued.max.request.bytes": "1000"})

    settings = {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"}
    assert NodeConfig.from_settings(settings).queued_max_request_bytes == 1000
