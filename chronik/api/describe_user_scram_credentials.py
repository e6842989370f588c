"""DescribeUserScramCredentials (50), version 0. Who can log in by SCRAM, with how many iterations; never with what."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code

REQUEST = DescribeUserScramCredentialsRequest
RESPONSE = DescribeUserScramCredentialsResponse


def handle(
    request: DescribeUserScramCredentialsRequest, caller: Caller, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    found: dict[str, list[Any]] = {}
    for (user, mechanism), kept in context.metadata.image.access.scram.items():
        found.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=kept.iterations))
    asked = Counter(user.name for user in request.users or ()) or dict.fromkeys(sorted(found), 1)
    results = tuple(_result(user, count, found.get(user, [])) for user, count in asked.items())
    return _response(Code.NONE, None, results)


def _result(user: str, count: int, infos: list[Any]) -> Any:
    code, message = Code.NONE, None
    if count > 1:
        code, message = Code.DUPLICATE_RESOURCE, f"Cannot describe SCRAM credentials for the same user twice: {user}"
    elif not infos:
        code = Code.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(
        user=user, error_code=code, error_message=message, credential_infos=() if code else tuple(infos)
    )


def _response(code: Code, message: str | None, results: tuple[Any, ...]) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        throttle_time=datetime.timedelta(0), error_code=code, error_message=message, results=results
    )


def refuse(
    request: DescribeUserScramCredentialsRequest, code: Code, message: str | None
) -> DescribeUserScramCredentialsResponse:
    return _response(code, message, ())
