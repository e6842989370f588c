"""ApiVersions: the first thing a client asks."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from chronik.api import api_versions
from chronik.core.errors import Code
from chronik.wire.versions import APIS, EVERY_API, INSPECT, NODE_SOFTWARE, PRODUCE
from tests.unit.api.fake_context import ask, fake_context


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


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("name", ["librdkafka", "chronik-cli"])
def test_no_client_is_told_of_requests_that_are_not_kafkas(name: str, version: int) -> None:
    assert INSPECT not in {entry.api_key for entry in asked(version, name).api_keys}


def test_another_node_is_told_of_them() -> None:
    assert {entry.api_key for entry in asked(3, NODE_SOFTWARE).api_keys} == set(EVERY_API)
