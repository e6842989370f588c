"""An IncrementalAlterConfigs that names loggers: their levels are this node's, all else is the controller's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from chronik.core.machines.metadata.commands import ResourceType
from chronik.node.routing.asked import Asked, Relayed
from chronik.wire.codec import decode_response, encode_request
from chronik.wire.framing import SIZE_BYTES, RequestHeader

INCREMENTAL_ALTER_CONFIGS = 44


def names_loggers(header: RequestHeader, request: Any) -> bool:
    return header.api_key == INCREMENTAL_ALTER_CONFIGS and any(map(_is_logger, request.resources))


async def alter_loggers(
    asked: Asked, request: Any, by_controller: Callable[[Asked, Any, memoryview], Awaitable[Any]]
) -> Any:
    """The response to the whole of it. `by_controller` takes a request, also as a frame, and gives the response or a
    `Relayed` one. Raises Refused."""
    header = asked.header
    loggers = tuple(one for one in request.resources if _is_logger(one))
    others = tuple(one for one in request.resources if not _is_logger(one))
    if not others:
        return await asked.here(request)
    rest = replace(request, resources=others)
    frame = encode_request(header.api_key, header.version, 0, header.client_id, rest)
    answer = await by_controller(asked, rest, memoryview(frame)[SIZE_BYTES:])
    if isinstance(answer, Relayed):
        answer = decode_response(header.api_key, header.version, answer.frame, asked.module.RESPONSE)
    own = await asked.here(replace(request, resources=loggers))
    of_loggers, of_others = iter(own.responses), iter(answer.responses)
    return replace(
        answer,
        responses=tuple(next(of_loggers if _is_logger(one) else of_others) for one in request.resources),
    )


def _is_logger(resource: Any) -> bool:
    return bool(resource.resource_type == ResourceType.BROKER_LOGGER)
