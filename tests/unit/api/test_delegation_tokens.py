"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest

from chronik.api import (
    authorization,
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from chronik.api.context import Caller, RequestContext
from chronik.core.access.acls import Acl, AclPatternType, AclPermission, AclSet
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Refused
from tests.unit.api.fake_context import fake_context

ALICE, BOB, EVE = (KafkaPrincipal("User", name) for name in ("alice", "bob", "eve"))
LONG = datetime.timedelta(milliseconds=-1)


def context_of(*rights: tuple[KafkaPrincipal, AclOperation, AclResourceType, str], key: str = "key") -> RequestContext:
    acls = AclSet()
    for number, (principal, operation, kind, name) in enumerate(rights):
        acl = Acl(kind, name, AclPatternType.LITERAL, str(principal), "*", operation, AclPermission.ALLOW)
        acls.add(number.to_bytes(16, "big"), acl)
    config = NodeConfig.from_settings({"delegation.token.secret.key": key} if key else {})
    return replace(fake_context(config=config), authorizer=Authorizer(lambda: acls, frozenset()))


def ask(module: ModuleType, request: Any, principal: KafkaPrincipal, context: RequestContext, **more: Any) -> Any:
    async def inside() -> Any:
        caller = Caller("c", "10.0.0.1", 3, 1, principal=principal, **more)
        try:
            answer = authorization.handle(module, module.__name__.rpartition(".")[2], request, caller, context)
            return await answer if asyncio.iscoroutine(answer) else answer
        except Refused as refused:
            return module.refuse(request, refused.code, refused.message)

    return asyncio.run(inside())


def make(context: RequestContext, principal: KafkaPrincipal = ALICE, owner: str | None = None, **more: Any) -> Any:
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=(CreatableRenewers(principal_type="User", principal_name="bob"),),
        max_lifetime=LONG,
    )
    return ask(create_delegation_token, request, principal, context, **more)


def seen(context: RequestContext, principal: KafkaPrincipal, owners: tuple[str, ...] | None = None) -> list[str]:
    named = (
        None
        if owners is None
        else tuple(DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners)
    )
    answer = ask(describe_delegation_token, DescribeDelegationTokenRequest(owners=named), principal, context)
    assert answer.error_code == Code.NONE
    return [token.token_id for token in answer.tokens]


def test_a_token_is_seen_by_its_owner_and_renewers_and_those_that_may() -> None:
    context = context_of((EVE, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, "User:alice"))
    made = make(context)

    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (Code.NONE, "alice", "alice")
    for who in (ALICE, BOB, EVE):
        assert seen(context, who) == [made.token_id]
    assert seen(context, KafkaPrincipal("User", "mallory")) == []
    assert (seen(context, ALICE, ("bob",)), seen(context, ALICE, ())) == ([], [])


def test_one_token_may_be_shown_by_its_id() -> None:
    context = context_of((EVE, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, "*"))
    assert len(seen(context, EVE)) == 0
    made = make(context)
    assert seen(context, EVE) == [made.token_id]


def test_a_token_for_another_user_needs_the_right_to() -> None:
    """KIP-373"""
    refused = make(context_of(), BOB, owner="alice")
    assert refused.error_code == Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED

    made = make(context_of((BOB, AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:alice")), BOB, owner="alice")
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (Code.NONE, "alice", "bob")


def test_it_is_renewed_and_ended_by_what_its_holder_knows() -> None:
    context = context_of()
    made = make(context)
    renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period=LONG)
    assert ask(renew_delegation_token, renew, BOB, context).error_code == Code.NONE
    assert ask(renew_delegation_token, renew, EVE, context).error_code == Code.DELEGATION_TOKEN_OWNER_MISMATCH
    end = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period=LONG)
    assert ask(expire_delegation_token, end, ALICE, context).error_code == Code.NONE
    assert ask(renew_delegation_token, renew, BOB, context).error_code == Code.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("is_token", [True, False])
def test_what_has_not_said_who_it_is_or_has_a_token_makes_none(is_token: bool) -> None:
    login = cast(Any, SimpleNamespace(is_token=True)) if is_token else None
    made = make(context_of(), ALICE if is_token else ANONYMOUS, login=login)
    assert made.error_code == Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_without_a_key_there_are_no_tokens() -> None:
    assert make(context_of(key="")).error_code == Code.DELEGATION_TOKEN_AUTH_DISABLED
    answer = ask(describe_delegation_token, DescribeDelegationTokenRequest(owners=None), ALICE, context_of(key=""))
    assert answer.error_code == Code.DELEGATION_TOKEN_AUTH_DISABLED
