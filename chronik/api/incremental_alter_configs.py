"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to or subtract from single settings (KIP-339).

The levels of loggers are a matter of the node that is asked; all else is decided by the controller.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from chronik.api import broker_loggers
from chronik.api.alter_configs import warn_of_settings_without_effect
from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import DONE, AlterConfigs, ChangeOutcome, ConfigChange, ResourceType

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
    stored = tuple(change for change in changes if change.resource_type != ResourceType.BROKER_LOGGER)
    outcomes: tuple[ChangeOutcome, ...] = ()
    if stored:
        outcomes = await context.metadata.ask(AlterConfigs(stored, validate_only=request.validate_only))
        warn_of_settings_without_effect(stored, outcomes)
    waiting = iter(outcomes)
    return _response(
        request,
        tuple(
            _of_logger(change, request, context)
            if change.resource_type == ResourceType.BROKER_LOGGER
            else next(waiting)
            for change in changes
        ),
    )


def _of_logger(change: ConfigChange, request: Any, context: RequestContext) -> ChangeOutcome:
    named = [(one.resource_type, one.resource_name) for one in request.resources]
    try:
        if named.count((change.resource_type, change.resource_name)) > 1:
            raise Refused(Code.INVALID_REQUEST, "Each resource must appear at most once.")
        broker_loggers.alter(change, context.node_id, validate_only=request.validate_only)
    except Refused as refused:
        return ChangeOutcome(refused.code, refused.message)
    return DONE


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
