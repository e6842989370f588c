"""Kafka's kafka-configs for groups and broker loggers against the node under test."""

from __future__ import annotations

import os
import re

import pytest

from tests.clients.kafka_tools import Tool
from tests.clients.support import needs

needs("kafka tools")

IS_KAFKA = os.environ.get("CHRONIK_TEST_PEER") == "kafka"
LOGGER = "org.apache.kafka.server.logger.LoggingController" if IS_KAFKA else "chronik.node.routing.dispatch"


@pytest.fixture(scope="module")
def tool(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(bootstrap, tmp_path_factory.mktemp("archive"))


def group(name: str, *arguments: str) -> list[str]:
    return [*arguments, "--entity-type", "groups", "--entity-name", name]


def test_kafka_configs_shows_sets_and_deletes_the_settings_of_a_group(tool: Tool, name: str) -> None:
    everything = tool("kafka-configs", *group(name, "--describe", "--all"))
    assert "consumer.session.timeout.ms=45000" in everything
    assert re.search(r"consumer.heartbeat.interval.ms=300 .*STATIC_BROKER_CONFIG:", everything)

    tool("kafka-configs", *group(name, "--alter", "--add-config", "consumer.session.timeout.ms=50000"))
    described = tool("kafka-configs", "--describe", "--entity-type", "groups")
    assert f"Dynamic configs for group {name} are:" in described
    assert (
        "consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:"
        "consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}"
    ) in described

    for setting, reason in (
        (
            "consumer.session.timeout.ms=1",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        ("foo=1", "Unknown group config name: foo"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(reason)):
            tool("kafka-configs", *group(name, "--alter", "--add-config", setting))

    tool("kafka-configs", *group(name, "--alter", "--delete-config", "consumer.session.timeout.ms"))
    assert name not in tool("kafka-configs", "--describe", "--entity-type", "groups")


def test_kafka_configs_shows_sets_and_deletes_the_levels_of_loggers(tool: Tool) -> None:
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]

    def level() -> str:
        [found] = re.findall(rf"  {re.escape(LOGGER)}=(\w+)", tool("kafka-configs", "--describe", *loggers))
        return str(found)

    before = level()
    tool("kafka-configs", "--alter", *loggers, "--add-config", f"{LOGGER}=FATAL")
    assert level() == "FATAL"
    tool("kafka-configs", "--alter", *loggers, "--delete-config", LOGGER)
    assert level() == before
    with pytest.raises(RuntimeError, match="Cannot set the log level of root to LOUD"):
        tool("kafka-configs", "--alter", *loggers, "--add-config", "root=LOUD")
    with pytest.raises(RuntimeError, match="Removing the log level of the root logger is not allowed"):
        tool("kafka-configs", "--alter", *loggers, "--delete-config", "root")
    with pytest.raises(RuntimeError, match=r"Invalid broker logger\(s\): foo.bar"):
        tool("kafka-configs", "--alter", *loggers, "--add-config", "foo.bar=DEBUG")
