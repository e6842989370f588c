"""Rights that count for a part of a request: topics in a group's offsets, produce and fetch; each is needed, no other
is enough, and what is refused says nothing of what is there (F65, F67)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from chronik.api import authorization, describe_configs, find_coordinator
from chronik.api.context import TransactionContext
from chronik.core.access.acls import Acl, AclPatternType, AclPermission, AclSet
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation as O
from chronik.core.access.operations import AclResourceType as R
from chronik.core.access.principal import ANONYMOUS
from chronik.core.errors import Code
from tests.unit.api.fetching import get, partitions_of, put
from tests.unit.api.house_context import HouseContext, run
from tests.unit.api.test_authorization import (
    FAILED,
    INCLUDES,
    KEYS,
    PARTS,
    RIGHTS,
    SEVERAL,
    Handler,
    Reached,
    caller,
    codes_in,
    context_with,
    request_of,
)
from tests.unit.core.log.logs import batch_of
from tests.unit.wire.hot_requests import produce_request

Right = tuple[O, R]
# What each needs for its topics, beside what it needs as a whole.
OF_TOPICS: dict[str, tuple[tuple[Right, ...], Right]] = {
    "offset_commit": (((O.READ, R.GROUP),), (O.READ, R.TOPIC)),
    "offset_delete": (((O.DELETE, R.GROUP),), (O.READ, R.TOPIC)),
    "txn_offset_commit": (SEVERAL["txn_offset_commit"], (O.READ, R.TOPIC)),
}


def about(api: str, topic: str) -> Any:
    request = request_of(api)
    named = "topic" if hasattr(request.topics[0], "topic") else "name"
    by_name = {named: topic} | ({"topic_id": None} if hasattr(request.topics[0], "topic_id") else {})
    return replace(request, topics=tuple(replace(one, **by_name) for one in request.topics[:1]))


def asked(api: str, request: Any, *rights: Right) -> Any:
    """Its answer; None: the handler was reached with all of it."""
    module: Any = Handler(api)
    try:
        response = authorization.handle(module, api, request, caller(), context_with(*rights))
    except Reached:
        return None
    return asyncio.run(response) if asyncio.iscoroutine(response) else response


@pytest.mark.parametrize("api", OF_TOPICS)
def test_topics_in_the_offsets_of_a_group_need_a_right_of_their_own(api: str) -> None:
    whole, (operation, kind) = OF_TOPICS[api]
    enough = {(one, kind) for one in INCLUDES.get(operation, (operation, O.ALL))}
    allowed = {right for right in RIGHTS if asked(api, about(api, "t"), *whole, right) is None}
    assert allowed == enough
    assert codes_in(asked(api, about(api, "t"), *whole)) - {Code.NONE} == {Code.TOPIC_AUTHORIZATION_FAILED}


TOPIC_PARTS = [api for api, (_, kind) in PARTS.items() if kind is R.TOPIC and api not in authorization.ASK_THEMSELVES]


@pytest.mark.parametrize("api", [*TOPIC_PARTS, *OF_TOPICS])
def test_a_topic_without_the_right_is_answered_as_one_that_is_not_there(api: str) -> None:
    """F67: the same but for the name."""
    whole = OF_TOPICS[api][0] if api in OF_TOPICS else ()
    request = request_of(api)
    if hasattr(request, "resources"):
        there, missing = (
            replace(request, resources=tuple(replace(one, resource_name=name) for one in request.resources))
            for name in ("t", "not-there")
        )
    else:
        there, missing = about(api, "t"), about(api, "not-there")
    first, second = asked(api, there, *whole), asked(api, missing, *whole)
    assert first is not None
    assert repr(first).replace("'t'", "'?'") == repr(second).replace("'not-there'", "'?'")


def test_settings_of_nodes_are_the_clusters_and_those_of_groups_the_groups() -> None:
    request = request_of("describe_configs")
    for number, right in ((4, (O.DESCRIBE_CONFIGS, R.CLUSTER)), (32, (O.DESCRIBE_CONFIGS, R.GROUP))):
        name = "1" if number == 4 else "g"
        of_kind = replace(request, resources=(replace(request.resources[0], resource_type=number, resource_name=name),))
        enough = {(one, right[1]) for one in INCLUDES[O.DESCRIBE_CONFIGS]}
        assert {one for one in RIGHTS if asked("describe_configs", of_kind, one) is None} == enough
        refused = asked("describe_configs", of_kind)
        assert codes_in(refused) == {FAILED[right[1]]}
        assert describe_configs.RESPONSE is type(refused)
        assert not refused.results[0].configs


def test_the_coordinator_of_a_transaction_needs_describe_on_its_id() -> None:
    request = replace(request_of("find_coordinator"), key_type=1, coordinator_keys=("x",))
    allowed = set()
    for right in RIGHTS:
        context = context_with(right)
        there = replace(
            context, transactional=TransactionContext(cast(Any, context.groups))
        )  # which has coordinators of anything
        response = asyncio.run(find_coordinator.handle(request, caller(), there))
        if Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED not in codes_in(response):
            allowed.add(right)
    assert allowed == {(one, R.TRANSACTIONAL_ID) for one in INCLUDES[O.DESCRIBE]}


# --- produce and fetch, with real logs


def allow(context: HouseContext, *rights: Right) -> None:
    acls = AclSet()
    names = {R.TOPIC: "orders", R.GROUP: "g", R.CLUSTER: "kafka-cluster", R.TRANSACTIONAL_ID: "x"}
    for number, (operation, kind) in enumerate(rights):
        acl = Acl(kind, names[kind], AclPatternType.LITERAL, str(ANONYMOUS), "*", operation, AclPermission.ALLOW)
        acls.add(number.to_bytes(16, "big"), acl)
    object.__setattr__(context.context, "authorizer", Authorizer(lambda: acls, frozenset()))


def produced(context: HouseContext, topic: str = "orders", txn: str | None = None) -> Any:
    from chronik.api import produce

    body = produce_request(12, txn, 1, 1000, [(topic, [(0, bytes(batch_of(1)))])])
    return context.ask(produce, 12, body)


@run()
async def test_only_write_on_the_topic_lets_a_batch_into_the_log(context: HouseContext) -> None:
    log = context.house.replicas.leader("orders", 0).log
    allowed = set()
    for right in RIGHTS:
        allow(context, right)
        before = log.end_offset
        answer = produced(context)
        await context.settle()
        [partition] = answer.response.responses[0].partition_responses
        if log.end_offset > before:
            allowed.add(right)
            assert partition.error_code == Code.NONE
        else:
            assert (partition.error_code, partition.base_offset, partition.log_start_offset) == (29, -1, -1)
    assert allowed == {(O.WRITE, R.TOPIC), (O.ALL, R.TOPIC)}


@run()
async def test_a_transactional_batch_needs_its_id_and_a_hidden_topic_looks_missing(context: HouseContext) -> None:
    log = context.house.replicas.leader("orders", 0).log
    allow(context, (O.WRITE, R.TOPIC))
    answer = produced(context, txn="x")
    await context.settle()
    assert answer.response.responses[0].partition_responses[0].error_code == 53
    assert log.end_offset == 0
    allow(context)
    answers = [produced(context, topic) for topic in ("orders", "not-there")]
    await context.settle()
    first, second = (answer.response.responses[0].partition_responses[0] for answer in answers)
    assert first == second


@run()
async def test_only_read_on_the_topic_gives_records_and_offsets(context: HouseContext) -> None:
    put(context, 3)
    await context.settle()
    allowed = set()
    for right in RIGHTS:
        allow(context, right)
        answer = partitions_of(get(context, (0, 0)))[0]
        if answer.error_code == Code.NONE:
            assert answer.records
            allowed.add(right)
        else:
            assert answer.error_code == Code.TOPIC_AUTHORIZATION_FAILED
            assert not answer.records
            assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert allowed == {(O.READ, R.TOPIC), (O.ALL, R.TOPIC)}
    allow(context)
    hidden, missing = (partitions_of(get(context, (0, 0), topic=topic))[0] for topic in ("orders", "not-there"))
    assert hidden.error_code == Code.TOPIC_AUTHORIZATION_FAILED
    assert missing.error_code in (Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert set(KEYS) >= {"fetch", "produce"}
