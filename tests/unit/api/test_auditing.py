"""Which requests the audit trail has, and that no secret is in it."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import json
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from chronik.api import auditing
from chronik.api.context import Caller, RequestContext
from chronik.api.table import ROWS, Destination, module_of
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.errors import Refused
from chronik.trace.audit import AuditTrail
from chronik.wire.lift import convert
from chronik.wire.versions import EVERY_API
from tests.unit.api.fake_context import fake_context, metadata_of
from tests.unit.wire.messages import filled, request_type

KEYS = {api.name: key for key, api in EVERY_API.items()}
EVE = Caller("app", "10.0.0.7", 7, 1, principal=KafkaPrincipal("User", "eve"), listener="CLIENTS")


def audited(*, authorizes: bool = False) -> tuple[RequestContext, AuditTrail]:
    context = fake_context(topics={"orders": 1})
    trail = AuditTrail(1, context.clock)
    trail.is_stored = True
    acls = metadata_of(context).image.access.acls
    authorizer = Authorizer(lambda: acls, frozenset()) if authorizes else None
    return replace(context, audit=trail, authorizer=authorizer), trail


def ask(context: RequestContext, api: str, request: Any, caller: Caller = EVE) -> None:
    async def asked() -> None:
        try:
            answer = auditing.handle(module_of(KEYS[api]), api, request, caller, context)
            if inspect.isawaitable(answer):
                await answer
        except Refused:
            pass

    asyncio.run(asked())


def full(api: str) -> Any:
    """A request with something in every field."""
    key = KEYS[api]
    return convert(filled(request_type(key, EVERY_API[key].highest), "full"), module_of(key).REQUEST)


def lines(trail: AuditTrail) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trail.pending]


def creation(*names: str, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
            for name in names
        ),
        timeout=datetime.timedelta(seconds=1),
        validate_only=validate_only,
    )


def test_a_change_is_said_with_what_came_of_it() -> None:
    context, trail = audited()
    ask(context, "create_topics", creation("new", "orders"))
    [line] = lines(trail)
    assert (line["kind"], line["principal"], line["outcome"]) == ("change", "User:eve", "partly")
    assert line["resources"] == ["TOPIC new partitions=1", "TOPIC orders partitions=1"]
    assert line["codes"] == ["TOPIC_ALREADY_EXISTS"]


def test_what_changes_nothing_is_not_said() -> None:
    context, trail = audited()
    ask(context, "create_topics", creation("new", validate_only=True))
    ask(context, "create_topics", creation())
    assert not trail.pending


def test_a_node_is_no_administrator_and_what_it_sends_on_is_its_clients() -> None:
    context, trail = audited()
    ask(context, "create_topics", creation("a"), EVE._replace(is_node=True, node_id=2))
    assert not trail.pending
    ask(context, "create_topics", creation("b"), EVE._replace(is_node=True, is_forwarded=True))
    assert [line["principal"] for line in lines(trail)] == ["User:eve"]


def test_a_denied_request_is_one_event_and_not_a_change() -> None:
    context, trail = audited(authorizes=True)
    ask(context, "create_topics", creation("new"))
    ask(context, "alter_user_scram_credentials", password())
    assert [(line["kind"], line["api"], line["operation"], line["resources"]) for line in lines(trail)] == [
        ("denied", "create_topics", "CREATE", ["TOPIC new"]),
        ("denied", "alter_user_scram_credentials", "ALTER", ["CLUSTER kafka-cluster"]),
    ]


def password() -> AlterUserScramCredentialsRequest:
    secret = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=5000, salt=b"sesame-salt", salted_password=b"sesame-hash"
    )
    return AlterUserScramCredentialsRequest(deletions=(), upsertions=(secret,))


def test_no_secret_is_in_it() -> None:
    context, trail = audited()
    ask(context, "alter_user_scram_credentials", password())
    config = AlterableConfig(name="ssl.key.password", config_operation=0, value="sesame-open")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=(config,))
    ask(
        context, "incremental_alter_configs", IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    )
    assert [line["resources"] for line in lines(trail)] == [
        ["USER alice set mechanism=1"],
        ["BROKER 1 ssl.key.password"],
    ]
    assert b"sesame" not in b"".join(trail.pending)
    for api in ("renew_delegation_token", "expire_delegation_token"):
        assert auditing.CHANGES[api](replace(full(api), hmac=b"sesame")) == ["TOKEN"]


def test_reading_is_no_change() -> None:
    context, trail = audited()
    for api in ("metadata", "describe_client_quotas", "describe_user_scram_credentials"):
        ask(context, api, full(api))
    assert not trail.pending


@pytest.mark.parametrize("api", sorted(auditing.CHANGES))
def test_every_change_says_what_it_is_about(api: str) -> None:
    said = auditing.CHANGES[api](full(api))
    assert said
    assert all(isinstance(one, str) and one for one in said)


def test_what_the_controller_carries_out_for_administrators_is_all_there() -> None:
    """A new request that changes the cluster is to be said of: or it is one that only reads, or that only nodes ask."""
    reads = {"describe_quorum", "list_partition_reassignments"}
    between_nodes = {"broker_registration", "broker_heartbeat", "alter_partition", "allocate_producer_ids"}
    at_controller = {EVERY_API[key].name for key, row in ROWS.items() if row.place is Destination.CONTROLLER}
    assert at_controller - reads - between_nodes <= set(auditing.CHANGES)
