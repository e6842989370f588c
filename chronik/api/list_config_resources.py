"""ListConfigResources (74), versions 0-1 (KIP-1142): what has settings, so that a tool can describe all of it.

Version 0 lists client metrics only, and there are none. In 1 a client may name the types it wants; none means all.
Of groups, those that have settings of their own are listed. There are no client metrics here.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage

REQUEST = ListConfigResourcesRequest
RESPONSE = ListConfigResourcesResponse

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
LISTED = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(request: ListConfigResourcesRequest, caller: Caller, context: RequestContext) -> ListConfigResourcesResponse:
    if caller.version == 0:
        return _response(Code.NONE, ())
    wanted = request.resource_types or LISTED
    if unknown := sorted({kind for kind in wanted if kind not in LISTED}):
        raise Refused(Code.UNSUPPORTED_VERSION, f"Unsupported resource types {unknown}.")
    image = context.metadata.image
    return _response(
        Code.NONE,
        tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in _names(image, kind)
        ),
    )


def _names(image: MetadataImage, kind: int) -> list[str]:
    if kind == GROUP:
        return sorted(name for of, name, _ in image.overrides() if of == GROUP)
    if kind == TOPIC:
        return sorted(image.topics)
    return [str(broker_id) for broker_id in sorted(image.brokers)] if kind in (BROKER, BROKER_LOGGER) else []


def _response(code: Code, resources: tuple[Any, ...]) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(throttle_time=datetime.timedelta(0), error_code=code, config_resources=resources)


def refuse(request: ListConfigResourcesRequest, code: Code, message: str | None) -> ListConfigResourcesResponse:
    return _response(code, ())
