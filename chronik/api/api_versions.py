"""ApiVersions (18), versions 0-5.

The first thing a client asks. An unknown version gets a version 0 answer with UNSUPPORTED_VERSION and the table, so
that the client can go on with a version both know (KIP-35, KIP-511); dispatch sees to that. From version 3 the client
names itself, a name that is no name is refused, and the answer has the cluster's features (KIP-584). From version 5 a
client may say which node of which cluster it believes to talk to; one that is wrong has to begin anew with its
bootstrap servers (KIP-1242). Other nodes get the private requests too.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from kio.schema.api_versions.v4.response import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.features import SUPPORTED, finalized
from chronik.core.machines.metadata.image import MetadataImage
from chronik.wire.kafka_4_4 import NO_NODE, ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.versions import APIS, EVERY_API
from chronik.wire.versions import ApiVersion as Spoken

REQUEST = ApiVersionsRequest
RESPONSE = ApiVersionsResponse

NAMES_FROM = FEATURES_FROM = 3
SWITCHED_OFF_FROM = 4  # clients of version 3 fail on a feature whose lowest level is 0 (KAFKA-17011)
MISROUTED_FROM = 5

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, caller: Caller, context: RequestContext) -> Any:
    if caller.version >= NAMES_FROM:
        for name in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(name):
                raise Refused(Code.INVALID_REQUEST, f"client software name or version {name!r}")
    if caller.version >= MISROUTED_FROM:
        _check_route(request, context)
    # Another node gets the requests that are ours alone: it may be of a version that has fewer of them.
    return answer(Code.NONE, EVERY_API if caller.is_node else APIS, context.metadata.image, caller.version)


def _check_route(request: ApiVersionsRequest, context: RequestContext) -> None:
    """Raises Refused for a client that means another node, or another cluster."""
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        raise Refused(Code.INVALID_REQUEST, "cluster id and node id come together, or not at all")
    if request.cluster_id is None:
        return
    is_right = request.cluster_id == context.cluster_id and (
        request.node_id == context.node_id
        or _have_one_address(context.metadata.image, request.node_id, context.node_id)
    )
    if not is_right:
        meant = f"not {request.node_id} of {request.cluster_id}"
        raise Refused(
            Code.REBOOTSTRAP_REQUIRED, f"this is node {context.node_id} of cluster {context.cluster_id}, {meant}"
        )


def _have_one_address(image: MetadataImage, one: int, other: int) -> bool:
    """Whether clients reach two nodes under the same address: any of them then answers for all
    (node/routing/one_address.py)."""
    found = [image.brokers.get(node_id) for node_id in (one, other)]
    addresses = {(broker.host, broker.port) for broker in found if broker is not None}
    return len(addresses) == 1 and None not in found


def answer(code: Code, apis: Mapping[int, Spoken] = APIS, image: MetadataImage | None = None, version: int = 0) -> Any:
    """The table of what we speak and, with an image, the features."""
    keys = tuple(ApiVersion(api_key=api.key, min_version=api.lowest, max_version=api.highest) for api in apis.values())
    has_features = image is not None and version >= FEATURES_FROM
    # An image without any: nothing of the metadata has reached this node yet.
    recorded = image if has_features and image is not None and image.features else None
    return ApiVersionsResponse(
        error_code=code,
        api_keys=keys,
        throttle_time=datetime.timedelta(0),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in SUPPORTED.items()
            if has_features and (levels.lowest > 0 or version >= SWITCHED_OFF_FROM)
        ),
        finalized_features_epoch=-1 if recorded is None else recorded.version,
        finalized_features=() if recorded is None else _finalized(recorded),
    )


def _finalized(image: MetadataImage) -> tuple[FinalizedFeatureKey, ...]:
    return tuple(
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in finalized(image.features).items()
        if level > 0
    )


def refuse(request: ApiVersionsRequest, code: Code, message: str | None) -> Any:
    return ApiVersionsResponse(error_code=code, api_keys=(), throttle_time=datetime.timedelta(0))
