"""AlterConfigs."""

from __future__ import annotations

import pytest
from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

from chronik.api import alter_configs
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context

TOPIC, BROKER = 2, 4


def request(
    name: str, *configs: tuple[str, str | None], validate_only: bool = False, resource_type: int = TOPIC
) -> AlterConfigsRequest:
    wanted = tuple(AlterableConfig(name=key, value=value) for key, value in configs)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=wanted)
    return AlterConfigsRequest(resources=(resource,), validate_only=validate_only)


def test_what_is_not_named_goes_back_to_its_default() -> None:
    context = fake_context(topics={"a": 1})

    ask(alter_configs, request("a", ("retention.ms", "5"), ("segment.bytes", "1000")), context, version=2)
    response = ask(alter_configs, request("a", ("segment.bytes", "2000")), context, version=2)

    assert [(one.resource_type, one.resource_name, one.error_code) for one in response.responses] == [
        (TOPIC, "a", Code.NONE)
    ]
    assert context.metadata.image.topic_overrides("a") == {"segment.bytes": "2000"}


def test_a_bad_setting_is_refused_with_its_reason() -> None:
    context = fake_context(topics={"a": 1})

    response = ask(alter_configs, request("a", ("segment.bytes", "few")), context, version=2)

    assert response.responses[0].error_code is Code.INVALID_CONFIG
    assert "must be a whole number" in response.responses[0].error_message


def test_a_null_value_is_refused_here() -> None:
    response = ask(alter_configs, request("a", ("segment.bytes", None)), fake_context(topics={"a": 1}), version=2)

    assert response.responses[0].error_code is Code.INVALID_REQUEST


def test_validate_only_alters_nothing() -> None:
    context = fake_context(topics={"a": 1})

    ask(alter_configs, request("a", ("retention.ms", "5"), validate_only=True), context, version=2)

    assert context.metadata.image.topic_overrides("a") == {}


def test_a_setting_that_has_no_effect_here_is_taken_and_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    context = fake_context(topics={"a": 1})
    wanted = request("", ("num.io.threads", "16"), ("message.max.bytes", "99"), resource_type=BROKER)

    (done,) = ask(alter_configs, wanted, context, version=2).responses

    assert done.error_code == Code.NONE
    assert caplog.messages == ["num.io.threads was set for all nodes, and has no effect here"]
