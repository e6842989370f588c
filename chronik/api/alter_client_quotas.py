"""AlterClientQuotas (49), versions 0-1. Quotas set and taken away (KIP-546). Runs on the controller."""

from __future__ import annotations

import datetime

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ChangeOutcome
from chronik.core.machines.metadata.quota_changes import AlterClientQuotas, QuotaChange

REQUEST = AlterClientQuotasRequest
RESPONSE = AlterClientQuotasResponse


async def handle(
    request: AlterClientQuotasRequest, caller: Caller, context: RequestContext
) -> AlterClientQuotasResponse:
    changes = tuple(
        QuotaChange(
            tuple((one.entity_type, one.entity_name) for one in entry.entity),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in request.entries
    )
    return _response(request, await context.metadata.ask_here(AlterClientQuotas(changes, request.validate_only)))


def _response(request: AlterClientQuotasRequest, outcomes: tuple[ChangeOutcome, ...]) -> AlterClientQuotasResponse:
    entries = tuple(
        EntryData(
            error_code=outcome.code,
            error_message=outcome.message,
            entity=tuple(EntityData(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity),
        )
        for entry, outcome in zip(request.entries, outcomes, strict=True)
    )
    return AlterClientQuotasResponse(throttle_time=datetime.timedelta(0), entries=entries)


def refuse(request: AlterClientQuotasRequest, code: Code, message: str | None) -> AlterClientQuotasResponse:
    return _response(request, (ChangeOutcome(code, message),) * len(request.entries))
