"""ListConfigResources."""

from __future__ import annotations

import pytest
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from chronik.api import list_config_resources
from chronik.api.list_config_resources import BROKER, BROKER_LOGGER, GROUP, TOPIC
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import AlterConfigs, ConfigChange
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def listed(*kinds: int, version: int = 1) -> tuple[Code, list[tuple[int, str]]]:
    context = fake_context(topics={"b": 1, "a": 1}, brokers=(2, 1))
    for group_id in ("h", "g"):
        change = ConfigChange(GROUP, group_id, (("consumer.session.timeout.ms", 0, "50000"),))
        metadata_of(context).tell(AlterConfigs((change,)))
    response = ask(list_config_resources, ListConfigResourcesRequest(resource_types=kinds), context, version=version)
    return response.error_code, [(each.resource_type, each.resource_name) for each in response.config_resources]


@pytest.mark.parametrize(
    ("kinds", "resources"),
    [
        ((TOPIC,), [(TOPIC, "a"), (TOPIC, "b")]),
        ((BROKER_LOGGER, BROKER), [(BROKER_LOGGER, "1"), (BROKER_LOGGER, "2"), (BROKER, "1"), (BROKER, "2")]),
        ((GROUP,), [(GROUP, "g"), (GROUP, "h")]),
        ((TOPIC, TOPIC), [(TOPIC, "a"), (TOPIC, "b")]),
    ],
)
def test_what_has_settings_is_listed_by_its_type(kinds: tuple[int, ...], resources: list[tuple[int, str]]) -> None:
    assert listed(*kinds) == (Code.NONE, resources)


def test_who_names_no_type_is_told_of_all() -> None:
    code, resources = listed()

    assert code is Code.NONE
    assert {kind for kind, _ in resources} == {TOPIC, BROKER, BROKER_LOGGER, GROUP}


def test_a_type_that_kafka_does_not_have_is_refused() -> None:
    assert listed(TOPIC, 3) == (Code.UNSUPPORTED_VERSION, [])


def test_version_0_means_client_metrics_and_there_are_none() -> None:
    assert listed(version=0) == (Code.NONE, [])
