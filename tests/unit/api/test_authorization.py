"""Each request with exactly the right that it needs, and with every other: F65, F66, F67."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from chronik.api import authorization
from chronik.api.context import Caller, RequestContext
from chronik.api.table import NODES_ONLY, module_of
from chronik.core.access.acls import CLUSTER_NAME, Acl, AclPatternType, AclPermission, AclSet
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.operations import AclOperation as O
from chronik.core.access.operations import AclResourceType as R
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.errors import Code, Refused
from chronik.wire.lift import convert
from chronik.wire.versions import APIS
from tests.unit.api.fake_context import fake_context
from tests.unit.wire.messages import filled, request_type

ALICE = KafkaPrincipal("User", "alice")
ROOT = KafkaPrincipal("User", "root")
NAMES = {R.TOPIC: "t", R.GROUP: "g", R.CLUSTER: CLUSTER_NAME, R.TRANSACTIONAL_ID: "x"}
FAILED = {
    R.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    R.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    R.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    R.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
INCLUDES = {
    O.DESCRIBE: (O.DESCRIBE, O.READ, O.WRITE, O.DELETE, O.ALTER, O.ALL),
    O.DESCRIBE_CONFIGS: (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.ALL),
}

# What a request that is refused whole needs: held against Kafka's documentation in test_kafka_rights.
WHOLE = {
    "describe_log_dirs": (O.DESCRIBE, R.CLUSTER),
    "describe_acls": (O.DESCRIBE, R.CLUSTER),
    "describe_user_scram_credentials": (O.DESCRIBE, R.CLUSTER),
    "list_config_resources": (O.DESCRIBE_CONFIGS, R.CLUSTER),
    "describe_client_quotas": (O.DESCRIBE_CONFIGS, R.CLUSTER),
    "alter_client_quotas": (O.ALTER_CONFIGS, R.CLUSTER),
    "create_acls": (O.ALTER, R.CLUSTER),
    "delete_acls": (O.ALTER, R.CLUSTER),
    "alter_user_scram_credentials": (O.ALTER, R.CLUSTER),
    "update_features": (O.ALTER, R.CLUSTER),
    "elect_leaders": (O.ALTER, R.CLUSTER),
    "alter_partition_reassignments": (O.ALTER, R.CLUSTER),
    "list_partition_reassignments": (O.DESCRIBE, R.CLUSTER),
    "unregister_broker": (O.ALTER, R.CLUSTER),
    "describe_quorum": (O.DESCRIBE, R.CLUSTER),
    "add_raft_voter": (O.ALTER, R.CLUSTER),
    "remove_raft_voter": (O.ALTER, R.CLUSTER),
    "init_producer_id": (O.WRITE, R.TRANSACTIONAL_ID),
    "end_txn": (O.WRITE, R.TRANSACTIONAL_ID),
    "write_txn_markers": (O.ALTER, R.CLUSTER),
    "join_group": (O.READ, R.GROUP),
    "sync_group": (O.READ, R.GROUP),
    "heartbeat": (O.READ, R.GROUP),
    "leave_group": (O.READ, R.GROUP),
    "offset_commit": (O.READ, R.GROUP),
    "offset_delete": (O.DELETE, R.GROUP),
    "consumer_group_heartbeat": (O.READ, R.GROUP),
}
# What each of the parts needs that a request names.
PARTS = {
    "list_offsets": (O.DESCRIBE, R.TOPIC),
    "offset_for_leader_epoch": (O.DESCRIBE, R.TOPIC),
    "delete_records": (O.DELETE, R.TOPIC),
    "describe_producers": (O.READ, R.TOPIC),
    "create_topics": (O.CREATE, R.TOPIC),
    "create_partitions": (O.ALTER, R.TOPIC),
    "describe_transactions": (O.DESCRIBE, R.TRANSACTIONAL_ID),
    "describe_groups": (O.DESCRIBE, R.GROUP),
    "delete_groups": (O.DELETE, R.GROUP),
    "consumer_group_describe": (O.DESCRIBE, R.GROUP),
    "describe_configs": (O.DESCRIBE_CONFIGS, R.TOPIC),
    "alter_configs": (O.ALTER_CONFIGS, R.TOPIC),
    "incremental_alter_configs": (O.ALTER_CONFIGS, R.TOPIC),
    "delete_topics": (O.DELETE, R.TOPIC),
    "describe_topic_partitions": (O.DESCRIBE, R.TOPIC),
    "metadata": (O.DESCRIBE, R.TOPIC),
    "find_coordinator": (O.DESCRIBE, R.GROUP),
    "offset_fetch": (O.DESCRIBE, R.GROUP),
}
# What needs several rights.
SEVERAL: dict[str, tuple[tuple[AclOperation, AclResourceType], ...]] = {
    "add_offsets_to_txn": ((O.WRITE, R.TRANSACTIONAL_ID), (O.READ, R.GROUP)),
    "txn_offset_commit": ((O.WRITE, R.TRANSACTIONAL_ID), (O.READ, R.GROUP)),
    "add_partitions_to_txn": ((O.WRITE, R.TRANSACTIONAL_ID), (O.WRITE, R.TOPIC)),
}
RIGHTS = [
    (operation, kind)
    for operation in O
    if operation >= O.ALL
    for kind in (R.TOPIC, R.GROUP, R.CLUSTER, R.TRANSACTIONAL_ID)
]
KEYS = {api.name: key for key, api in APIS.items()}


class Reached(Exception):
    """The handler was begun: it is not what is tested here."""


class Handler:
    """In place of a request's module: says whether it was reached, and refuses as that does."""

    def __init__(self, api: str) -> None:
        self.refuse = module_of(KEYS[api]).refuse

    def handle(self, request: Any, caller: Caller, context: RequestContext) -> Any:
        raise Reached


def context_with(*rights: tuple[AclOperation, AclResourceType], name: str | None = None) -> RequestContext:
    acls = AclSet()
    for number, (operation, kind) in enumerate(rights):
        own = NAMES[kind] if name is None or kind is R.CLUSTER else name
        acl = Acl(kind, own, AclPatternType.LITERAL, str(ALICE), "*", operation, AclPermission.ALLOW)
        acls.add(number.to_bytes(16, "big"), acl)
    return replace(fake_context(topics={"t": 1}), authorizer=Authorizer(lambda: acls, frozenset({ROOT})))


def caller(principal: KafkaPrincipal = ALICE, *, is_node: bool = False, is_forwarded: bool = False) -> Caller:
    return Caller("c", "10.0.0.1", 99, 1, is_node=is_node, principal=principal, is_forwarded=is_forwarded)


def request_of(api: str) -> Any:
    """A request about the topic t, the group g, the transactional id x."""
    key = KEYS[api]
    version = APIS[key].highest
    request = convert(filled(request_type(key, version), "full"), module_of(key).REQUEST)
    changes: dict[str, Any] = {}
    for field, value in (("group_id", "g"), ("transactional_id", "x"), ("subscribed_topic_regex", None)):
        if hasattr(request, field):
            changes[field] = value
    if hasattr(request, "subscribed_topic_names"):
        changes["subscribed_topic_names"] = ()
    if hasattr(request, "transactional_ids"):
        changes["transactional_ids"] = ("x",)
    if hasattr(request, "groups_names"):
        changes["groups_names"] = ("g",)
    if hasattr(request, "group_ids"):
        changes["group_ids"] = ("g",)
    if api == "describe_groups":
        changes["groups"] = ("g",)
    if api == "offset_fetch":
        changes["groups"] = tuple(replace(group, group_id="g", topics=()) for group in request.groups[:1])
    if api == "find_coordinator":
        changes |= {"key_type": 0, "coordinator_keys": ("g",)}
    if hasattr(request, "resources"):
        changes["resources"] = tuple(replace(one, resource_type=2, resource_name="t") for one in request.resources[:1])
    if hasattr(request, "topics") and request.topics and api in PARTS and not isinstance(request.topics[0], str):
        named = "topic" if hasattr(request.topics[0], "topic") else "name"
        by_name = {named: "t"} | ({"topic_id": None} if hasattr(request.topics[0], "topic_id") else {})
        changes["topics"] = tuple(replace(topic, **by_name) for topic in request.topics[:1])
    if api == "add_partitions_to_txn":
        only = replace(request.transactions[0], transactional_id="x", topics=tuple(
            replace(topic, name="t") for topic in request.transactions[0].topics))  # fmt: skip
        changes |= {"transactions": (only,), "v3_and_below_transactional_id": "", "v3_and_below_topics": ()}
    if hasattr(request, "topic_names"):
        changes["topic_names"] = ()
    if api == "describe_topic_partitions":
        changes["cursor"] = None
    return replace(request, **changes)


def outcome(api: str, context: RequestContext, who: Caller) -> set[Code] | None:
    """The codes in the answer; None: the request reached its handler."""
    handles_itself = api in authorization.ASK_THEMSELVES
    module: Any = module_of(KEYS[api]) if handles_itself else Handler(api)
    try:
        response = authorization.handle(module, api, request_of(api), who, context)
        if asyncio.iscoroutine(response):
            response = asyncio.run(response)
    except (Reached, AttributeError):  # there is no group that a fake could tell of: it was asked, and that is enough
        return None
    except Refused as refused:
        return {refused.code}
    return codes_in(response)


def codes_in(message: Any) -> set[Code]:
    if isinstance(message, tuple):
        return {code for one in message for code in codes_in(one)}
    fields = getattr(type(message), "__dataclass_fields__", {})
    found = {Code(message.error_code)} if "error_code" in fields else set()
    return found | {code for field in fields for code in codes_in(getattr(message, field))}


@pytest.mark.parametrize("api", [*WHOLE, *PARTS])
def test_a_request_is_allowed_with_the_right_it_needs_and_refused_with_any_other(api: str) -> None:
    operation, kind = WHOLE.get(api) or PARTS[api]
    enough = {(one, kind) for one in INCLUDES.get(operation, (operation, O.ALL))}
    if api == "create_topics":
        enough |= {(O.CREATE, R.CLUSTER), (O.ALL, R.CLUSTER)}

    allowed = set()
    for right in RIGHTS:
        codes = outcome(api, context_with(right), caller())
        if codes is None or FAILED[kind] not in codes:
            allowed.add(right)

    assert allowed == enough


@pytest.mark.parametrize("api", SEVERAL)
def test_of_several_rights_each_is_needed(api: str) -> None:
    for missing in SEVERAL[api]:
        others = [right for right in SEVERAL[api] if right is not missing]
        assert outcome(api, context_with(*others), caller()) == {FAILED[missing[1]]}


@pytest.mark.parametrize("api", [*WHOLE, *PARTS])
def test_a_right_on_another_resource_is_none(api: str) -> None:
    operation, kind = WHOLE.get(api) or PARTS[api]
    if kind is R.CLUSTER:
        return  # there is one
    codes = outcome(api, context_with((operation, kind), name="another"), caller())
    assert codes is not None
    assert FAILED[kind] in codes


@pytest.mark.parametrize("api", [*WHOLE, *PARTS])
def test_super_users_and_nodes_are_not_asked_about_but_what_nodes_send_on_is(api: str) -> None:
    context = context_with()
    refused = FAILED[(WHOLE.get(api) or PARTS[api])[1]]
    for who in (caller(ROOT), caller(is_node=True)):
        codes = outcome(api, context, who)
        assert codes is None or refused not in codes
    codes = outcome(api, context, caller(is_node=True, is_forwarded=True))
    assert codes is not None
    assert refused in codes


def test_every_request_is_guarded_or_asks_for_itself() -> None:
    """F65: one that was forgotten."""
    known = {*WHOLE, *PARTS, *authorization.ASK_THEMSELVES, *SEVERAL, "list_groups", "list_transactions"}
    only_nodes = {APIS[key].name for key in NODES_ONLY}
    assert {api.name for api in APIS.values()} - only_nodes - known == set()


def test_what_is_in_no_table_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        authorization.check_whole("a_new_request", object(), caller(), context_with((O.ALTER, R.CLUSTER)))
    assert caught.value.code is Code.CLUSTER_AUTHORIZATION_FAILED


def test_a_topic_that_is_not_to_be_seen_is_answered_as_one_that_is_not_there() -> None:
    """F67"""
    from chronik.api import metadata

    context = context_with()

    def answered(name: str) -> Any:
        (topic,) = replace(request_of("metadata")).topics
        named = (replace(topic, name=name),)
        request = replace(request_of("metadata"), topics=named, allow_auto_topic_creation=False)
        (told,) = asyncio.run(metadata.handle(request, caller(), context)).topics
        return replace(told, name="")

    assert answered("t") == answered("not-there")
