"""CreateDelegationToken (38), versions 1-3. A token for the one that asks, or from 3 on for another user (KIP-373).

Only the controller answers it. The answer waits until the live brokers have the token, so that it is good everywhere.
"""

from __future__ import annotations

import base64
import datetime

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse

from chronik.api.authorization import gate_of
from chronik.api.context import Caller, RequestContext
from chronik.api.delegation import APPLIED_MS, NEVER, check_may_ask, moment, secret
from chronik.api.durations import milliseconds
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.token_changes import CreateToken

REQUEST = CreateDelegationTokenRequest
RESPONSE = CreateDelegationTokenResponse
API = "create_delegation_token"


async def handle(
    request: CreateDelegationTokenRequest, caller: Caller, context: RequestContext
) -> CreateDelegationTokenResponse:
    check_may_ask(API, caller)
    requester = owner = caller.principal
    if request.owner_principal_name:
        owner = KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)
    gate = None if owner == requester else gate_of(context, caller, API)
    if gate is not None and not gate.may(AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner)):
        raise Refused(Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    command = CreateToken(
        base64.urlsafe_b64encode(context.chance.uuid()).decode().rstrip("="),
        owner,
        requester,
        tuple(KafkaPrincipal(one.principal_type, one.principal_name) for one in request.renewers),
        milliseconds(request.max_lifetime),
    )
    token = await context.metadata.ask_here(command)
    await context.metadata.wait_until_applied(APPLIED_MS)
    return CreateDelegationTokenResponse(
        error_code=Code.NONE,
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
        issue_timestamp=moment(token.issued_ms),
        expiry_timestamp=moment(token.expires_ms),
        max_timestamp=moment(token.max_ms),
        token_id=token.token_id,
        hmac=secret(token, context),
        throttle_time=datetime.timedelta(0),
    )


def refuse(request: CreateDelegationTokenRequest, code: Code, message: str | None) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=request.owner_principal_type or ANONYMOUS.principal_type,
        principal_name=request.owner_principal_name or "",
        token_requester_principal_type=ANONYMOUS.principal_type,
        token_requester_principal_name="",
        issue_timestamp=NEVER,
        expiry_timestamp=NEVER,
        max_timestamp=NEVER,
        token_id="",
        hmac=b"",
        throttle_time=datetime.timedelta(0),
    )
