"""IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Any

from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from chronik.api import incremental_alter_configs
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context

TOPIC, BROKER = 2, 4
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
    logger = resource(8, "1", ("root", SET, "DEBUG"))

    response = ask(incremental_alter_configs, request(topic, missing, broker, logger), context, 1)

    assert [(one.resource_type, one.resource_name, one.error_code) for one in response.responses] == [
        (TOPIC, "a", Code.NONE),
        (TOPIC, "b", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", Code.INVALID_REQUEST),
        (8, "1", Code.INVALID_REQUEST),
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
