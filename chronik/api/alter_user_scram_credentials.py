"""AlterUserScramCredentials (51), version 0. Passwords of SCRAM, set and taken away (KIP-554).

The client salts the password and sends that: enough to log in with, so it belongs on an encrypted connection.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.access_changes import AlterUserScramCredentials, ScramDeletion, ScramUpsertion
from chronik.core.machines.metadata.commands import ChangeOutcome

REQUEST = AlterUserScramCredentialsRequest
RESPONSE = AlterUserScramCredentialsResponse


async def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    command = AlterUserScramCredentials(
        tuple(ScramDeletion(one.name, one.mechanism) for one in request.deletions),
        tuple(
            ScramUpsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
            for one in request.upsertions
        ),
    )
    return _response(await context.metadata.ask_here(command))


def _response(outcomes: dict[str, ChangeOutcome]) -> Any:
    results = tuple(
        AlterUserScramCredentialsResult(user=user, error_code=outcome.code, error_message=outcome.message)
        for user, outcome in outcomes.items()
    )
    return AlterUserScramCredentialsResponse(throttle_time=datetime.timedelta(0), results=results)


def refuse(request: Any, code: Code, message: str | None) -> Any:
    users = [one.name for one in (*request.deletions, *request.upsertions)]
    return _response(dict.fromkeys(users, ChangeOutcome(code, message)))
