"""Every group request in every version we answer: read from bytes, answered, written to bytes, read again."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from chronik.api.durations import duration
from chronik.api.table import module_of
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import OffsetToCommit
from chronik.wire.codec import decode_request
from chronik.wire.lift import convert
from chronik.wire.schemas import request_type
from chronik.wire.versions import APIS
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context
from tests.unit.api.test_admin_versions import codes_in, filled, read_back, written
from tests.unit.core.machines.groups.host import commit, consumer_beat, leave

NAMES = (
    "find_coordinator",
    "join_group",
    "sync_group",
    "heartbeat",
    "leave_group",
    "offset_commit",
    "offset_fetch",
    "describe_groups",
    "list_groups",
    "delete_groups",
    "offset_delete",
    "consumer_group_heartbeat",
    "consumer_group_describe",
)
CASES = [
    (api, version) for api in APIS.values() if api.name in NAMES for version in range(api.supported, api.highest + 1)
]
IDS = [f"{api.name}-v{version}" for api, version in CASES]
EVERY_CASE = pytest.mark.parametrize(("api", "version"), CASES, ids=IDS)

ORDERS_ID = uuid.UUID(int=1)  # the first that the desk's chance makes
MEMBER = {"group_id": "stable", "generation_id": 1, "member_id": "a"}
OFFSET = {"partition_index": 1, "committed_offset": 42, "committed_leader_epoch": 3, "committed_metadata": "note"}
BY_ANY_NAME = {"name": "orders", "topic_id": ORDERS_ID}
FETCHED = [{**BY_ANY_NAME, "partition_indexes": [0, 1]}]

WANTED: dict[str, dict[str, Any]] = {
    "find_coordinator": {"key": "g", "coordinator_keys": ["g"]},
    "join_group": {
        "group_id": "g",
        "session_timeout": duration(10_000),
        "rebalance_timeout": duration(10_000),
        "group_instance_id": "i",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"sub"}],
    },
    "sync_group": {**MEMBER, "protocol_type": "consumer", "protocol_name": "range"},
    "heartbeat": MEMBER,
    "leave_group": {**MEMBER, "members": [{"member_id": "a"}]},
    "offset_commit": {"group_id": "g", "topics": [{**BY_ANY_NAME, "partitions": [OFFSET]}]},
    "offset_fetch": {"group_id": "g", "topics": FETCHED, "groups": [{"group_id": "g", "topics": FETCHED}]},
    "describe_groups": {"groups": ["stable"], "include_authorized_operations": True},
    "list_groups": {"states_filter": [], "types_filter": []},
    "delete_groups": {"groups_names": ["empty"]},
    "offset_delete": {"group_id": "empty", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
    "consumer_group_heartbeat": {
        "group_id": "new",
        "member_id": "m",
        "rebalance_timeout": duration(10_000),
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    },
    "consumer_group_describe": {"group_ids": ["consumer"]},
}


def house() -> Any:
    """A desk with a stable classic group, a consumer group, and one of offsets only."""
    context, host = grouped_context({"orders": 3})
    host.stable_group("a")
    host.machine.groups["stable"] = host.machine.groups.pop("g")
    host.ask(commit(OffsetToCommit("orders", 0, 1), group_id="empty"))
    host.ask(consumer_beat("m", 0))
    host.machine.groups["consumer"] = host.machine.groups.pop("g")
    return context


@EVERY_CASE
def test_a_request_in_any_version_is_answered_in_that_version(api: Any, version: int) -> None:
    module = module_of(api.key)
    body = written(filled(request_type(api.key, version), WANTED[api.name]))

    request = decode_request(api.key, version, body, 0, module.REQUEST)
    response = read_back(api, version, ask(module, request, house(), version))

    allowed = {0, int(Code.MEMBER_ID_REQUIRED)} if api.name == "join_group" else {0}
    assert set(codes_in(response)) <= allowed, response


@EVERY_CASE
def test_a_refusal_in_any_version_is_never_a_success(api: Any, version: int) -> None:
    # F33: a fault answered as success.
    module = module_of(api.key)
    request = convert(filled(request_type(api.key, version), WANTED[api.name]), module.REQUEST)

    response = read_back(api, version, module.refuse(request, Code.UNKNOWN_SERVER_ERROR, "a fault"))

    codes = codes_in(response)
    assert codes
    assert set(codes) == {-1}


@pytest.mark.parametrize("version", range(2, 10))
def test_what_one_version_commits_every_version_fetches(version: int) -> None:
    context = house()
    committing, fetching = module_of(8), module_of(9)
    body = written(filled(request_type(8, version), WANTED["offset_commit"]))
    ask(committing, decode_request(8, version, body, 0, committing.REQUEST), context, version)
    for fetch_version in range(1, 11):
        body = written(filled(request_type(9, fetch_version), WANTED["offset_fetch"]))
        request = decode_request(9, fetch_version, body, 0, fetching.REQUEST)
        response = read_back(APIS[9], fetch_version, ask(fetching, request, context, fetch_version))
        (topic,) = response.topics if fetch_version < 8 else response.groups[0].topics
        none, one = topic.partitions
        assert (none.committed_offset, one.committed_offset, one.metadata) == (-1, 42, "note")
        if fetch_version >= 5:
            assert one.committed_leader_epoch == (3 if version >= 6 else -1)


def test_leaving_is_possible_in_all_versions() -> None:
    # The union type takes the single member of old versions and the list of new ones.
    context, host = grouped_context()
    for version in range(6):
        host.machine.groups.clear()
        host.stable_group("a")
        module = module_of(13)
        wanted = {"group_id": "g", "member_id": "a", "members": [{"member_id": "a"}]}
        body = written(filled(request_type(13, version), wanted))
        response = ask(module, decode_request(13, version, body, 0, module.REQUEST), context, version)
        assert response.error_code is Code.NONE
        assert host.classic().members == {}
    assert host.ask(leave(("a", None))).codes == (Code.UNKNOWN_MEMBER_ID,)
