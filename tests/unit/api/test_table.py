"""All we speak: for every request in the table there is a module that answers it."""

from __future__ import annotations

import importlib.util
import inspect
import pathlib

import pytest

import chronik.api
from chronik.api.table import _ROWS, DIRECT, OVERLAPS, PLACES, ROWS, Destination, at, module_of
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code
from chronik.wire.lift import convert
from chronik.wire.versions import APIS, EVERY_API, ApiVersion
from tests.unit.wire.messages import filled, request_type

EACH = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
NOT_REQUESTS = {"__init__", "context", "table", "durations", "permissions", "topic_ids"}


@EACH
def test_every_request_in_the_table_has_its_module(api: ApiVersion) -> None:
    assert importlib.util.find_spec(f"chronik.api.{api.name}") is not None
    assert module_of(api.key).__name__ == f"chronik.api.{api.name}"


@EACH
def test_every_module_has_what_dispatch_needs(api: ApiVersion) -> None:
    module = module_of(api.key)

    if api.key in DIRECT:
        assert list(inspect.signature(module.start).parameters) == ["call", "context"]
        return
    assert list(inspect.signature(module.handle).parameters) == ["request", "caller", "context"]
    assert len(inspect.signature(module.refuse).parameters) == 3
    assert inspect.isclass(module.REQUEST)
    assert inspect.isclass(module.RESPONSE)


@EACH
def test_the_module_says_its_number_and_versions_at_the_top(api: ApiVersion) -> None:
    first_line = (module_of(api.key).__doc__ or "").splitlines()[0]

    assert f"({api.key})" in first_line


def test_every_module_that_answers_a_request_is_in_the_table() -> None:
    folder = pathlib.Path(chronik.api.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - NOT_REQUESTS
    answering = {name for name in modules if hasattr(importlib.import_module(f"chronik.api.{name}"), "refuse")}

    assert (answering | {"produce", "fetch"}) == {api.name for api in APIS.values()}


def test_no_refusal_of_any_request_is_a_success() -> None:
    """F33: whatever is refused, in whatever version it was asked, has a code somewhere in its response."""
    for api in APIS.values():
        if api.key in DIRECT:
            continue
        module = module_of(api.key)
        for version in range(api.lowest, api.highest + 1):
            request = convert(filled(request_type(api.key, version), "full"), module.REQUEST)
            response = module.refuse(request, Code.UNKNOWN_SERVER_ERROR, "a bug")
            assert "UNKNOWN_SERVER_ERROR" in repr(response) or "error_code=-1" in repr(response), (api.name, version)


def test_the_requests_behind_which_the_next_may_start_are_those_that_wait_for_others() -> None:
    names = {APIS[key].name for key in OVERLAPS}

    assert {"produce", "fetch", "join_group", "sync_group", "heartbeat", "offset_commit"} <= names
    assert names.isdisjoint({"create_topics", "delete_topics", "metadata", "api_versions", "init_producer_id"})


# The requests that need no permission: by them a client finds out what it may ask, and where; a token says whose it is.
UNGUARDED = {"api_versions", "describe_cluster", "sasl_handshake", "sasl_authenticate"}
UNGUARDED |= {"renew_delegation_token", "expire_delegation_token"}


@pytest.mark.parametrize("api", EVERY_API.values(), ids=lambda api: api.name)
def test_every_request_has_its_operation_and_resource(api: ApiVersion) -> None:
    needs = ROWS[api.key].needs

    assert bool(needs) is (api.name not in UNGUARDED)
    assert len(set(needs)) == len(needs)
    assert all(access.operation >= AclOperation.READ for access in needs)
    assert all(access.resource_type >= AclResourceType.TOPIC for access in needs)


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("produce", (AclOperation.WRITE, AclResourceType.TOPIC)),
        ("fetch", (AclOperation.READ, AclResourceType.TOPIC)),
        ("join_group", (AclOperation.READ, AclResourceType.GROUP)),
        ("create_topics", (AclOperation.CREATE, AclResourceType.CLUSTER)),
        ("describe_configs", (AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC)),
        ("alter_partition", (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)),
    ],
)
def test_what_is_usually_needed_stands_first(name: str, needs: tuple[AclOperation, AclResourceType]) -> None:
    (api,) = (api for api in APIS.values() if api.name == name)

    assert ROWS[api.key].needs[0] == needs


def test_the_table_has_no_line_too_many() -> None:
    assert len(ROWS) == len(EVERY_API)
    assert set(_ROWS) == {api.name for api in EVERY_API.values()}


@EACH
def test_every_request_has_its_place(api: ApiVersion) -> None:
    assert isinstance(PLACES[api.key], Destination)


def test_a_request_has_one_place() -> None:
    keys = [key for place in Destination for key in at(place)]

    assert sorted(keys) == sorted(APIS)
