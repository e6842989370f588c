"""DescribeAcls (29), versions 1-3: SECURITY_DISABLED, as a Kafka without an authorizer answers it.

Consoles ask it to find out whether they should show a page of ACLs.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused

REQUEST = DescribeAclsRequest
RESPONSE = DescribeAclsResponse


def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    raise Refused(Code.SECURITY_DISABLED, "No Authorizer is configured.")


def refuse(request: Any, code: Code, message: str | None) -> Any:
    return DescribeAclsResponse(
        throttle_time=datetime.timedelta(0), error_code=code, error_message=message, resources=()
    )
