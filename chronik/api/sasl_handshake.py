"""SaslHandshake (17), versions 0-1. Which mechanism a client logs in with; before it has, it may ask nothing else.

After version 0 the mechanism's messages come as they are, each with its size before it; after 1 in SaslAuthenticate.
"""

from __future__ import annotations

from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused

REQUEST = SaslHandshakeRequest
RESPONSE = SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, caller: Caller, context: RequestContext) -> SaslHandshakeResponse:
    login = caller.login
    if login is None:  # on a listener without SASL
        raise Refused(Code.ILLEGAL_SASL_STATE)
    try:
        login.handshake(request.mechanism, is_raw=caller.version == 0)
    except Refused as refused:
        if refused.code is not Code.UNSUPPORTED_SASL_MECHANISM:
            raise
        context.metrics.refused(request.__api_key__, refused.code)
        return SaslHandshakeResponse(error_code=refused.code, mechanisms=login.mechanisms)
    return SaslHandshakeResponse(error_code=Code.NONE, mechanisms=login.mechanisms)


def refuse(request: SaslHandshakeRequest, code: Code, message: str | None) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=())
