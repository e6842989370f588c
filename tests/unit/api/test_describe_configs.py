"""DescribeConfigs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

from chronik.api import describe_configs
from chronik.core.config.definitions import ConfigType, Source
from chronik.core.config.describe import SHOWN_WHEN_SET
from chronik.core.config.node import NODE_SETTINGS, NodeConfig
from chronik.core.config.topic import TOPIC_SETTINGS
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import AlterConfigs, ConfigChange, ConfigOperation
from tests.unit.api.fake_context import ask, fake_context, metadata_of

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32


def request(kind: int, name: str, keys: tuple[str, ...] | None = None, *, more: bool = False) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=(resource,), include_synonyms=more, include_documentation=more)


def shown(response: Any) -> dict[str, Any]:
    [result] = response.results
    assert result.error_code is Code.NONE
    return {config.name: config for config in result.configs}


def test_a_topic_shows_all_settings_with_their_source() -> None:
    context = fake_context(topics={"a": 1}, config=NodeConfig.from_settings({"log.retention.ms": "9"}))
    change = ConfigChange(TOPIC, "a", (("segment.bytes", ConfigOperation.SET, "1000"),))
    metadata_of(context).tell(AlterConfigs((change,)))

    configs = shown(ask(describe_configs, request(TOPIC, "a"), context, version=4))

    assert list(configs) == list(TOPIC_SETTINGS)
    assert {name: (configs[name].value, configs[name].config_source) for name in ("segment.bytes", "retention.ms")} == {
        "segment.bytes": ("1000", Source.TOPIC),
        "retention.ms": ("9", Source.STATIC_BROKER),
    }
    assert configs["cleanup.policy"].config_source == Source.DEFAULT
    assert configs["cleanup.policy"].config_type == ConfigType.LIST
    assert configs["cleanup.policy"].synonyms == ()
    assert configs["cleanup.policy"].documentation is None


def test_synonyms_and_documentation_come_when_asked_for() -> None:
    configs = shown(ask(describe_configs, request(TOPIC, "a", more=True), fake_context(topics={"a": 1}), version=4))

    assert [(one.name, one.value, one.source) for one in configs["segment.bytes"].synonyms] == [
        ("log.segment.bytes", "1073741824", Source.DEFAULT)
    ]
    assert configs["segment.bytes"].documentation


def test_only_the_keys_asked_for_are_shown_and_none_means_all() -> None:
    context = fake_context(topics={"a": 1})

    assert list(shown(ask(describe_configs, request(TOPIC, "a", ("retention.ms", "nope")), context, 4))) == [
        "retention.ms"
    ]
    assert len(shown(ask(describe_configs, request(TOPIC, "a", ()), context, 4))) == len(TOPIC_SETTINGS)


def test_a_node_shows_its_settings() -> None:
    context = fake_context(config=NodeConfig.from_settings({"num.partitions": "3"}))

    configs = shown(ask(describe_configs, request(BROKER, "1"), context, version=4))

    assert list(configs) == [name for name in NODE_SETTINGS if name not in SHOWN_WHEN_SET]
    assert (configs["num.partitions"].value, configs["num.partitions"].read_only) == ("3", True)
    assert configs["inter.broker.protocol.version"].value  # consoles look for it
    assert not configs["log.retention.ms"].read_only


def test_the_broker_without_a_name_shows_what_was_altered_for_all() -> None:
    context = fake_context()
    change = ConfigChange(BROKER, "", (("message.max.bytes", ConfigOperation.SET, "5"),))
    metadata_of(context).tell(AlterConfigs((change,)))

    configs = shown(ask(describe_configs, request(BROKER, ""), context, version=4))

    assert [(config.name, config.value, config.config_source) for config in configs.values()] == [
        ("message.max.bytes", "5", Source.DYNAMIC_CLUSTER)
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no pe", Code.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", Code.INVALID_REQUEST),
        (16, "1", Code.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_has_its_own_error(kind: int, name: str, code: Code) -> None:
    [result] = ask(describe_configs, request(kind, name), fake_context(brokers=(1, 2)), version=4).results

    assert (result.error_code, result.resource_type, result.resource_name, result.configs) == (code, kind, name, ())
    assert result.error_message


def test_a_group_shows_its_settings_with_those_of_the_node_behind_them() -> None:
    context = fake_context(config=NodeConfig.from_settings({"group.consumer.heartbeat.interval.ms": "6000"}))
    change = ConfigChange(GROUP, "g", (("consumer.session.timeout.ms", ConfigOperation.SET, "50000"),))
    metadata_of(context).tell(AlterConfigs((change,)))

    configs = shown(ask(describe_configs, request(GROUP, "g", more=True), context, version=4))

    told = {name: (config.value, config.config_source, config.read_only) for name, config in configs.items()}
    assert told == {
        "consumer.heartbeat.interval.ms": ("6000", Source.STATIC_BROKER, False),
        "consumer.session.timeout.ms": ("50000", Source.GROUP, False),
    }
    assert [(one.name, one.value, one.source) for one in configs["consumer.session.timeout.ms"].synonyms] == [
        ("consumer.session.timeout.ms", "50000", Source.GROUP),
        ("group.consumer.session.timeout.ms", "45000", Source.DEFAULT),
    ]
    assert shown(ask(describe_configs, request(GROUP, "other"), context, version=4))


def test_a_node_shows_its_loggers() -> None:
    logging.getLogger("chronik.node.routing.dispatch").setLevel(logging.CRITICAL)
    try:
        configs = shown(ask(describe_configs, request(BROKER_LOGGER, "1"), fake_context(), version=4))
    finally:
        logging.getLogger("chronik.node.routing.dispatch").setLevel(logging.NOTSET)

    assert {"root", "chronik", "chronik.node.routing.dispatch"} <= set(configs)
    one = configs["chronik.node.routing.dispatch"]
    assert (one.value, one.config_source, one.read_only, one.synonyms) == ("FATAL", Source.BROKER_LOGGER, False, ())


@pytest.mark.parametrize(
    ("kind", "name"), [(GROUP, ""), (BROKER_LOGGER, "2"), (BROKER_LOGGER, ""), (16, "m"), (7, "x")]
)
def test_what_has_no_settings_here_is_refused(kind: int, name: str) -> None:
    [result] = ask(describe_configs, request(kind, name), fake_context(), version=4).results

    assert result.error_code is Code.INVALID_REQUEST
