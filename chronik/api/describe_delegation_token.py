"""DescribeDelegationToken (41), versions 1-3. The tokens that the one that asks may see, with their secrets.

Those are its own and those it may renew; others with DESCRIBE on the token, or DESCRIBE_TOKENS on their owner
(KIP-373).
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)

from chronik.api.authorization import gate_of
from chronik.api.context import Caller, RequestContext
from chronik.api.delegation import check_may_ask, secret
from chronik.core.access.delegation_tokens import DelegationToken
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.errors import Code, Refused

REQUEST = DescribeDelegationTokenRequest
RESPONSE = DescribeDelegationTokenResponse
API = "describe_delegation_token"


def handle(
    request: DescribeDelegationTokenRequest, caller: Caller, context: RequestContext
) -> DescribeDelegationTokenResponse:
    check_may_ask(API, caller)
    image = context.metadata.image
    if image.node_config.token_key is None:
        raise Refused(Code.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {KafkaPrincipal(one.principal_type, one.principal_name) for one in request.owners}
    gate = gate_of(context, caller, API)

    def is_seen(token: DelegationToken) -> bool:
        if owners is not None and token.owner not in owners:
            return False
        if gate is None or token.is_of(caller.principal):
            return True
        return gate.sees(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id) or gate.sees(
            AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, str(token.owner)
        )

    seen = tuple(_described(token, context) for token in image.access.tokens.values() if is_seen(token))
    return _response(Code.NONE, seen)


def _described(token: DelegationToken, context: RequestContext) -> Any:
    return DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.principal_type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=secret(token, context),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=one.principal_type, principal_name=one.name)
            for one in token.renewers
        ),
    )


def _response(code: Code, tokens: tuple[Any, ...]) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code, tokens=tokens, throttle_time=datetime.timedelta(0))


def refuse(request: DescribeDelegationTokenRequest, code: Code, message: str | None) -> DescribeDelegationTokenResponse:
    return _response(code, ())
