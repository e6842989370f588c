"""ExpireDelegationToken (40), versions 1-2. A token ends sooner, or at once. Only the controller answers it."""

from __future__ import annotations

import datetime

from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.delegation import APPLIED_MS, NEVER, check_may_ask, moment
from chronik.api.durations import milliseconds
from chronik.core.errors import Code
from chronik.core.machines.metadata.token_changes import ExpireToken

REQUEST = ExpireDelegationTokenRequest
RESPONSE = ExpireDelegationTokenResponse


async def handle(
    request: ExpireDelegationTokenRequest, caller: Caller, context: RequestContext
) -> ExpireDelegationTokenResponse:
    check_may_ask("expire_delegation_token", caller)
    command = ExpireToken(request.hmac, caller.principal, milliseconds(request.expiry_time_period))
    until_ms = await context.metadata.ask_here(command)
    await context.metadata.wait_until_applied(APPLIED_MS)
    return _response(Code.NONE, moment(until_ms))


def _response(code: Code, until: datetime.datetime) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp=until, throttle_time=datetime.timedelta(0))


def refuse(request: ExpireDelegationTokenRequest, code: Code, message: str | None) -> ExpireDelegationTokenResponse:
    return _response(code, NEVER)
