"""DescribeAcls (29), versions 1-3. The rules that a filter finds, by resource, as this node's image has them.

Without an authorizer: SECURITY_DISABLED, as Kafka answers it. Consoles ask to find out whether to show a page of ACLs.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource, DescribeAclsResponse

from chronik.api.acl_requests import check_enabled, filter_of
from chronik.api.context import Caller, RequestContext
from chronik.core.access.acls import Acl
from chronik.core.errors import Code

REQUEST = DescribeAclsRequest
RESPONSE = DescribeAclsResponse


def handle(request: DescribeAclsRequest, caller: Caller, context: RequestContext) -> DescribeAclsResponse:
    check_enabled(context)
    wanted = filter_of(request)
    wanted.check()
    by_resource: dict[tuple[int, str, int], list[Acl]] = {}
    for _, acl in context.metadata.image.access.acls.matching(wanted):
        by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(acl)
    resources = tuple(
        DescribeAclsResource(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern_type,
            acls=tuple(
                AclDescription(
                    principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
                )
                for acl in acls
            ),
        )
        for (resource_type, name, pattern_type), acls in by_resource.items()
    )
    return _response(Code.NONE, None, resources)


def _response(code: Code, message: str | None, resources: tuple[Any, ...]) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        throttle_time=datetime.timedelta(0), error_code=code, error_message=message, resources=resources
    )


def refuse(request: DescribeAclsRequest, code: Code, message: str | None) -> DescribeAclsResponse:
    return _response(code, message, ())
