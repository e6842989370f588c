"""IncrementalAlterConfigs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from chronik.api import broker_loggers, incremental_alter_configs
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, *operations: tuple[str, int, str | None]) -> Any:
    configs = tuple(
        AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in operations
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def request(*resources: Any, validate_only: bool = False) -> Any:
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def test_single_settings_are_altered_and_the_others_stay() -> None:
    context = fake_context(topics={"a": 1})

    ask(incremental_alter_configs, request(resource(TOPIC, "a", ("retention.ms", SET, "5"))), context, 1)
    ask(incremental_alter_configs, request(resource(TOPIC, "a", ("cleanup.policy", APPEND, "compact"))), context, 1)
    assert context.metadata.image.topic_overrides("a") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}

    both = resource(TOPIC, "a", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
    response = ask(incremental_alter_configs, request(both), context, 1)

    assert response.responses[0].error_code is Code.NONE
    assert context.metadata.image.topic_overrides("a") == {"cleanup.policy": "compact"}


def test_each_resource_has_its_own_error() -> None:
    context = fake_context(topics={"a": 1})
    topic = resource(TOPIC, "a", ("retention.ms", SET, "5"))
    missing = resource(TOPIC, "b", ("retention.ms", SET, "5"))
    broker = resource(BROKER, "1", ("num.partitions", SET, "5"))
    metrics = resource(16, "1", ("interval.ms", SET, "1000"))

    response = ask(incremental_alter_configs, request(topic, missing, broker, metrics), context, 1)

    assert [(one.resource_type, one.resource_name, one.error_code) for one in response.responses] == [
        (TOPIC, "a", Code.NONE),
        (TOPIC, "b", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", Code.INVALID_REQUEST),
        (16, "1", Code.INVALID_REQUEST),
    ]


def test_a_setting_of_all_brokers_is_in_force_at_once() -> None:
    context = fake_context(topics={"a": 1})

    ask(incremental_alter_configs, request(resource(BROKER, "", ("message.max.bytes", SET, "99"))), context, 1)

    assert context.metadata.image.topic_config("a").max_message_bytes == 99


def test_validate_only_alters_nothing() -> None:
    context = fake_context(topics={"a": 1})

    ask(
        incremental_alter_configs,
        request(resource(TOPIC, "a", ("retention.ms", SET, "5")), validate_only=True),
        context,
        1,
    )

    assert context.metadata.image.topic_overrides("a") == {}


@pytest.fixture
def _levels() -> Iterator[None]:
    """Loggers are the process's: whatever a test sets is taken back."""
    loggers = [logging.getLogger(name) for name in ("chronik.node.routing.dispatch", "chronik.api.alter_configs", None)]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def codes(response: Any) -> list[tuple[Code, str | None]]:
    return [(one.error_code, one.error_message) for one in response.responses]


@pytest.mark.usefixtures("_levels")
def test_the_level_of_a_logger_is_set_and_taken_back_on_this_node() -> None:
    context = fake_context(topics={"a": 1})
    logger = logging.getLogger("chronik.node.routing.dispatch")
    above = logger.getEffectiveLevel()

    for text, level in (("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)):
        wanted = request(resource(BROKER_LOGGER, "1", (logger.name, SET, text)))
        assert codes(ask(incremental_alter_configs, wanted, context, 1)) == [(Code.NONE, None)]
        assert logger.level == level
    back = request(resource(BROKER_LOGGER, "1", (logger.name, DELETE, None)))
    assert codes(ask(incremental_alter_configs, back, context, 1)) == [(Code.NONE, None)]
    assert (logger.level, logger.getEffectiveLevel()) == (logging.NOTSET, above)
    assert not metadata_of(context).asked


@pytest.mark.usefixtures("_levels")
@pytest.mark.parametrize(
    ("node", "operations", "code", "message"),
    [
        ("1", [("foo.bar", SET, "DEBUG")], Code.INVALID_CONFIG, "Logger foo.bar does not exist!"),
        (
            "1",
            [("chronik.node.routing.dispatch", SET, "DEBUG"), ("root", SET, "LOUD")],
            Code.INVALID_CONFIG,
            "Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG,"
            " ERROR, FATAL, INFO, TRACE, WARN",
        ),
        ("1", [("root", SET, None)], Code.INVALID_CONFIG, "Cannot set the log level of root to None"),
        ("1", [("root", DELETE, None)], Code.INVALID_REQUEST, "Removing the log level of the root logger"),
        ("1", [("root", APPEND, "INFO")], Code.INVALID_REQUEST, "APPEND operation is not allowed"),
        ("1", [("root", SUBTRACT, "INFO")], Code.INVALID_REQUEST, "SUBTRACT operation is not allowed"),
        ("1", [("root", 9, "INFO")], Code.INVALID_REQUEST, "Unknown (9) operation is not allowed"),
        ("2", [("root", SET, "INFO")], Code.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"),
        ("", [("root", SET, "INFO")], Code.INVALID_REQUEST, "Node id must be an integer, but it is: "),
    ],
)
def test_a_level_that_cannot_be_is_refused_and_nothing_is_set(
    node: str, operations: list[tuple[str, int, str | None]], code: Code, message: str
) -> None:
    logging.getLogger("chronik.node.routing.dispatch")
    before = broker_loggers.levels()

    [(answered, said)] = codes(
        ask(incremental_alter_configs, request(resource(BROKER_LOGGER, node, *operations)), fake_context(), 1)
    )

    assert answered is code
    assert (said or "").startswith(message)
    assert broker_loggers.levels() == before


@pytest.mark.usefixtures("_levels")
def test_loggers_and_other_resources_are_answered_in_the_order_of_the_request() -> None:
    context = fake_context(topics={"a": 1})
    wanted = request(
        resource(BROKER_LOGGER, "9", ("root", SET, "INFO")),
        resource(TOPIC, "a", ("retention.ms", SET, "5")),
        resource(BROKER_LOGGER, "1", ("chronik.api.alter_configs", SET, "ERROR")),
        resource(TOPIC, "none", ("retention.ms", SET, "5")),
        resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
    )

    response = ask(incremental_alter_configs, wanted, context, 1)

    assert [code for code, _ in codes(response)] == [
        Code.INVALID_REQUEST,
        Code.NONE,
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NONE,
    ]
    assert logging.getLogger("chronik.api.alter_configs").level == logging.ERROR
    assert context.metadata.image.group_overrides("g") == {"consumer.session.timeout.ms": "50000"}


@pytest.mark.usefixtures("_levels")
def test_a_logger_is_not_set_by_a_validation_nor_where_it_is_named_twice() -> None:
    """A logger is not set by a validation nor by a request that names its node twice."""
    logger = logging.getLogger("chronik.node.routing.dispatch")
    one = resource(BROKER_LOGGER, "1", (logger.name, SET, "FATAL"))

    assert codes(ask(incremental_alter_configs, request(one, validate_only=True), fake_context(), 1))[0][0] is Code.NONE
    twice = codes(ask(incremental_alter_configs, request(one, one), fake_context(), 1))

    assert [code for code, _ in twice] == [Code.INVALID_REQUEST] * 2
    assert logger.level != logging.CRITICAL
