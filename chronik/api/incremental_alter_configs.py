"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to or subtract from single settings (KIP-339)."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from chronik.api.alter_configs import warn_of_settings_without_effect
from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import AlterConfigs, ChangeOutcome, ConfigChange

REQUEST = IncrementalAlterConfigsRequest
RESPONSE = IncrementalAlterConfigsResponse


async def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    changes = tuple(
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            tuple((config.name, config.config_operation, config.value) for config in resource.configs),
        )
        for resource in request.resources
    )
    outcomes = await context.metadata.ask(AlterConfigs(changes, validate_only=request.validate_only))
    warn_of_settings_without_effect(changes, outcomes)
    return _response(request, outcomes)


def _response(request: Any, outcomes: tuple[ChangeOutcome, ...]) -> Any:
    responses = tuple(
        AlterConfigsResourceResponse(
            error_code=outcome.code,
            error_message=outcome.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, outcome in zip(request.resources, outcomes, strict=True)
    )
    return IncrementalAlterConfigsResponse(throttle_time=datetime.timedelta(0), responses=responses)


def refuse(request: Any, code: Code, message: str | None) -> Any:
    return _response(request, (ChangeOutcome(code, message),) * len(request.resources))
