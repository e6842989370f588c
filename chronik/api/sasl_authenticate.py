"""SaslAuthenticate (36), versions 0-2. The messages of the mechanism that SaslHandshake named.

From version 1 the answer says how long the login lasts (KIP-368). A refusal comes after a while
(`connection.failed.authentication.delay.ms`), and then the connection is closed.
"""

from __future__ import annotations

import asyncio
import datetime
import logging

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.access.scram import AuthenticationFailed
from chronik.core.errors import Code, Refused

log = logging.getLogger(__name__)

REQUEST = SaslAuthenticateRequest
RESPONSE = SaslAuthenticateResponse


async def handle(request: SaslAuthenticateRequest, caller: Caller, context: RequestContext) -> SaslAuthenticateResponse:
    login = caller.login
    if login is None:  # on a listener without SASL
        raise Refused(Code.ILLEGAL_SASL_STATE)
    answer = await step(request.auth_bytes, caller, context)
    return SaslAuthenticateResponse(
        error_code=Code.NONE,
        error_message=None,
        auth_bytes=answer,
        session_lifetime=datetime.timedelta(milliseconds=login.session_lifetime_ms),
    )


async def step(message: bytes, caller: Caller, context: RequestContext) -> bytes:
    """The answer to a message of the mechanism. Raises Refused, some time later."""
    assert caller.login is not None
    try:
        return caller.login.step(message)
    except AuthenticationFailed as failed:
        log.warning("a login from %s by %s is refused: %s", caller.client_host, caller.listener, failed)
        delay_ms = context.metadata.image.node_config.sasl.connection_failed_authentication_delay_ms
        await asyncio.sleep(delay_ms / 1000)
        raise Refused(Code.SASL_AUTHENTICATION_FAILED, str(failed)) from failed


def refuse(request: SaslAuthenticateRequest, code: Code, message: str | None) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
