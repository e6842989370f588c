"""ApiVersions (18), versions 0-4.

The first thing a client asks. An unknown version gets a version 0 answer with UNSUPPORTED_VERSION and the table, so
that the client can go on with a version both know (KIP-35, KIP-511); dispatch sees to that. From version 3 the client
names itself, and a name that is no name is refused. Nodes hear of the private requests too.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.wire.versions import APIS, EVERY_API, NODE_SOFTWARE
from chronik.wire.versions import ApiVersion as Spoken

REQUEST = ApiVersionsRequest
RESPONSE = ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    if caller.version >= 3:
        for name in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(name):
                raise Refused(Code.INVALID_REQUEST, f"client software name or version {name!r}")
    # Another node is told of the requests that are ours alone: it may be of a version that has fewer of them.
    is_node = caller.version >= 3 and request.client_software_name == NODE_SOFTWARE
    return answer(Code.NONE, EVERY_API if is_node else APIS)


def answer(code: Code, apis: Mapping[int, Spoken] = APIS) -> Any:
    """The table of what we speak."""
    keys = tuple(ApiVersion(api_key=api.key, min_version=api.lowest, max_version=api.highest) for api in apis.values())
    return ApiVersionsResponse(error_code=code, api_keys=keys, throttle_time=datetime.timedelta(0))


def refuse(request: Any, code: Code, message: str | None) -> Any:
    return ApiVersionsResponse(error_code=code, api_keys=(), throttle_time=datetime.timedelta(0))
