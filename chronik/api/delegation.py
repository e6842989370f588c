"""What the requests about delegation tokens share (KIP-48).

A client that did not say who it is has nothing to delegate, and one that logged in with a token cannot make others.
"""

from __future__ import annotations

import datetime

from chronik.api.context import Caller, RequestContext
from chronik.core.access.delegation_tokens import DelegationToken, secret_of
from chronik.core.access.principal import ANONYMOUS
from chronik.core.errors import Code, Refused

TOKEN_REQUESTS = frozenset(
    ("create_delegation_token", "renew_delegation_token", "expire_delegation_token", "describe_delegation_token")
)
APPLIED_MS = 500
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
NEVER = _EPOCH


def check_may_ask(api: str, caller: Caller) -> None:
    """Raises Refused."""
    if api not in TOKEN_REQUESTS:
        return
    is_token = caller.login is not None and caller.login.is_token and not caller.is_node
    if is_token or caller.principal == ANONYMOUS:
        raise Refused(
            Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "delegation tokens are for clients that have logged in or shown a certificate, and not with a token",
        )


def secret(token: DelegationToken, context: RequestContext) -> bytes:
    """Raises Refused."""
    key = context.metadata.image.node_config.token_key
    if key is None:
        raise Refused(Code.DELEGATION_TOKEN_AUTH_DISABLED, "Delegation Token feature is not enabled.")
    return secret_of(key, token.token_id)


def moment(wall_ms: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(milliseconds=wall_ms)
