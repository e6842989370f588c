"""ApiVersions: the first thing a client asks."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.api import api_versions
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.features import FeatureUpdate, UpdateFeatures
from chronik.core.machines.metadata.image import MetadataImage
from chronik.wire.kafka_4_4 import ApiVersionsRequest
from chronik.wire.versions import APIS, EVERY_API, INSPECT, NODE_SOFTWARE, PRODUCE
from tests.unit.api.fake_context import CLUSTER_ID, ask, fake_context, metadata_of


def asked(version: int, name: str = "my-client", software_version: str = "1.2.3") -> Any:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    return ask(api_versions, request, fake_context(), version)


def test_the_answer_is_the_table_of_what_we_speak() -> None:
    response = asked(4)

    assert response.error_code == Code.NONE
    told = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert told == {api.key: (api.lowest, api.highest) for api in APIS.values()}


def test_produce_is_told_from_version_0() -> None:
    """Older librdkafka switches compression off when it does not see it."""
    assert (PRODUCE, 0) in [(entry.api_key, entry.min_version) for entry in asked(0).api_keys]


@pytest.mark.parametrize("name", ["librdkafka", "apache-kafka-java", "a", "x.y-z9"])
def test_a_client_may_have_any_name_that_is_one(name: str) -> None:
    assert asked(3, name).error_code == Code.NONE
    assert asked(4, "client", name).error_code == Code.NONE


@pytest.mark.parametrize("name", ["", "-x", "x-", "two words", "semi;colon", "ünï", "a\n"])
def test_a_name_that_is_none_is_refused_where_it_is_asked_for(name: str) -> None:
    assert asked(3, name).error_code == Code.INVALID_REQUEST
    assert asked(3, "client", name).error_code == Code.INVALID_REQUEST
    assert asked(2, name).error_code == Code.NONE


def test_the_table_goes_with_the_refusal_of_an_unknown_version() -> None:
    response = api_versions.answer(Code.UNSUPPORTED_VERSION)

    assert response.error_code == Code.UNSUPPORTED_VERSION
    assert len(response.api_keys) == len(APIS)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("name", ["librdkafka", "chronik-cli"])
def test_no_client_is_told_of_requests_that_are_not_kafkas(name: str, version: int) -> None:
    assert INSPECT not in {entry.api_key for entry in asked(version, name).api_keys}


def test_another_node_is_told_of_them() -> None:
    request = ApiVersionsRequest(client_software_name=NODE_SOFTWARE, client_software_version="1.0")

    response = ask(api_versions, request, fake_context(), 3, node_id=2)

    assert {entry.api_key for entry in response.api_keys} == set(EVERY_API)


@pytest.mark.parametrize("version", range(6))
def test_features_are_told_from_version_3_and_those_that_can_be_switched_off_from_4(version: int) -> None:
    response = asked(version)

    expected = ["eligible.leader.replicas.version", "kraft.version", "metadata.version"] if version >= 3 else []
    if version >= 4:
        expected.insert(1, "group.version")
        expected.append("transaction.version")
    assert [one.name for one in response.supported_features] == expected
    assert ("metadata.version", 7, 30) in [tuple(_fields(one)) for one in response.supported_features] or version < 3


def test_the_finalized_features_are_those_of_the_image() -> None:
    """The finalized features are those of the image and their epoch is its version."""
    context = fake_context()
    metadata_of(context).tell(UpdateFeatures((FeatureUpdate("group.version", 0, 2),)))

    response = ask(api_versions, ApiVersionsRequest(client_software_name="a", client_software_version="b"), context, 4)

    told = {one.name: (one.min_version_level, one.max_version_level) for one in response.finalized_features}
    assert told == {
        "eligible.leader.replicas.version": (1, 1),
        "kraft.version": (1, 1),
        "metadata.version": (30, 30),
        "transaction.version": (2, 2),
    }
    assert response.finalized_features_epoch == context.metadata.image.version > 0


def test_a_node_that_knows_nothing_yet_says_that_its_features_are_unknown() -> None:
    """A node that knows nothing of the cluster yet says that its features are unknown."""
    context = fake_context()
    empty = MetadataImage(CLUSTER_ID, context.metadata.image.node_config)

    response = api_versions.answer(Code.NONE, APIS, empty, 4)

    assert (response.finalized_features_epoch, response.finalized_features) == (-1, ())
    assert response.supported_features


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, Code.NONE),
        (CLUSTER_ID, 1, Code.NONE),
        (CLUSTER_ID, 2, Code.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, 9, Code.REBOOTSTRAP_REQUIRED),
        ("another", 1, Code.REBOOTSTRAP_REQUIRED),
        (None, 1, Code.INVALID_REQUEST),
        (CLUSTER_ID, -1, Code.INVALID_REQUEST),
    ],
)
def test_a_client_that_means_another_node_is_told_to_begin_anew(
    cluster_id: str | None, node_id: int, code: Code
) -> None:
    """KIP-1242."""
    request = ApiVersionsRequest(
        client_software_name="a", client_software_version="b", cluster_id=cluster_id, node_id=node_id
    )

    assert ask(api_versions, request, fake_context(brokers=(1, 2)), 5).error_code == code
    assert ask(api_versions, request, fake_context(brokers=(1, 2)), 4).error_code == Code.NONE


def test_where_all_nodes_have_one_address_any_of_them_may_be_meant() -> None:
    context = fake_context(brokers=(1,))
    metadata_of(context).tell(RegisterBroker(2, bytes(16), "host-1", 9092))
    request = ApiVersionsRequest(
        client_software_name="a", client_software_version="b", cluster_id=CLUSTER_ID, node_id=2
    )

    assert ask(api_versions, request, context, 5).error_code == Code.NONE


def _fields(one: Any) -> tuple[str, int, int]:
    return one.name, one.min_version, one.max_version
