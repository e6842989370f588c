"""RenewDelegationToken (39), versions 1-2. A token lasts longer. Only the controller answers it."""

from __future__ import annotations

import datetime

from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.delegation import APPLIED_MS, NEVER, check_may_ask, moment
from chronik.api.durations import milliseconds
from chronik.core.errors import Code
from chronik.core.machines.metadata.token_changes import RenewToken

REQUEST = RenewDelegationTokenRequest
RESPONSE = RenewDelegationTokenResponse


async def handle(
    request: RenewDelegationTokenRequest, caller: Caller, context: RequestContext
) -> RenewDelegationTokenResponse:
    check_may_ask("renew_delegation_token", caller)
    command = RenewToken(request.hmac, caller.principal, milliseconds(request.renew_period))
    until_ms = await context.metadata.ask_here(command)
    await context.metadata.wait_until_applied(APPLIED_MS)
    return _response(Code.NONE, moment(until_ms))


def _response(code: Code, until: datetime.datetime) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp=until, throttle_time=datetime.timedelta(0))


def refuse(request: RenewDelegationTokenRequest, code: Code, message: str | None) -> RenewDelegationTokenResponse:
    return _response(code, NEVER)
