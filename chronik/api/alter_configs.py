"""AlterConfigs (33), versions 0-2: the old way, where what is not named goes back to its default."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence

from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.config.without_effect import WITHOUT_EFFECT
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import (
    AlterConfigs,
    ChangeOutcome,
    ConfigChange,
    ConfigOperation,
    ResourceType,
)

log = logging.getLogger(__name__)

REQUEST = AlterConfigsRequest
RESPONSE = AlterConfigsResponse


async def handle(request: AlterConfigsRequest, caller: Caller, context: RequestContext) -> AlterConfigsResponse:
    changes = tuple(
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            tuple((config.name, ConfigOperation.SET, config.value) for config in resource.configs),
        )
        for resource in request.resources
    )
    outcomes = await context.metadata.ask(AlterConfigs(changes, replace_all=True, validate_only=request.validate_only))
    warn_of_settings_without_effect(changes, outcomes)
    return _response(request, outcomes)


def warn_of_settings_without_effect(changes: Sequence[ConfigChange], outcomes: Sequence[ChangeOutcome]) -> None:
    """They are taken, as Kafka would: the log says that nothing follows from them here."""
    for change, outcome in zip(changes, outcomes, strict=True):
        names = sorted({key for key, _, _ in change.operations if key in WITHOUT_EFFECT})
        if names and not outcome.code and change.resource_type == ResourceType.BROKER:
            log.warning(
                "%s was set for %s, and has no effect here", ", ".join(names), change.resource_name or "all nodes"
            )


def _response(request: AlterConfigsRequest, outcomes: tuple[ChangeOutcome, ...]) -> AlterConfigsResponse:
    responses = tuple(
        AlterConfigsResourceResponse(
            error_code=outcome.code,
            error_message=outcome.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, outcome in zip(request.resources, outcomes, strict=True)
    )
    return AlterConfigsResponse(throttle_time=datetime.timedelta(0), responses=responses)


def refuse(request: AlterConfigsRequest, code: Code, message: str | None) -> AlterConfigsResponse:
    return _response(request, (ChangeOutcome(code, message),) * len(request.resources))
