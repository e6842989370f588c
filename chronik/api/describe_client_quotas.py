"""DescribeClientQuotas (48), versions 0-1. The quotas of the entities that a filter finds (KIP-546)."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.static.primitive import f64

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.quotas.entities import QuotaFilter, QuotaFilterPart

REQUEST = DescribeClientQuotasRequest
RESPONSE = DescribeClientQuotasResponse


def handle(
    request: DescribeClientQuotasRequest, caller: Caller, context: RequestContext
) -> DescribeClientQuotasResponse:
    parts = (QuotaFilterPart(one.entity_type, one.match_type, one.match) for one in request.components)
    found = context.metadata.image.quotas.found_by(QuotaFilter(parts, strict=request.strict))
    entries = tuple(
        EntryData(
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
            values=tuple(ValueData(key=key, value=f64(value)) for key, value in values.items()),
        )
        for entity, values in found
    )
    return _response(Code.NONE, None, entries)


def _response(code: Code, message: str | None, entries: tuple[Any, ...] | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        throttle_time=datetime.timedelta(0), error_code=code, error_message=message, entries=entries
    )


def refuse(request: DescribeClientQuotasRequest, code: Code, message: str | None) -> DescribeClientQuotasResponse:
    return _response(code, message, None)
