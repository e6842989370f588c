"""DeleteAcls (31), versions 1-3. All rules that a filter finds go; the answer names them."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse

from chronik.api.acl_requests import check_enabled, filter_of
from chronik.api.context import Caller, RequestContext
from chronik.core.access.acls import Acl
from chronik.core.errors import Code
from chronik.core.machines.metadata.access_changes import DeleteAcls, DeletedAcls
from chronik.core.machines.metadata.commands import ChangeOutcome

REQUEST = DeleteAclsRequest
RESPONSE = DeleteAclsResponse


async def handle(request: DeleteAclsRequest, caller: Caller, context: RequestContext) -> DeleteAclsResponse:
    check_enabled(context)
    return _response(await context.metadata.ask_here(DeleteAcls(tuple(map(filter_of, request.filters)))))


def _response(answers: tuple[DeletedAcls, ...]) -> DeleteAclsResponse:
    results = tuple(
        DeleteAclsFilterResult(
            error_code=answer.outcome.code,
            error_message=answer.outcome.message,
            matching_acls=tuple(map(_deleted, answer.acls)),
        )
        for answer in answers
    )
    return DeleteAclsResponse(throttle_time=datetime.timedelta(0), filter_results=results)


def _deleted(acl: Acl) -> Any:
    return DeleteAclsMatchingAcl(
        error_code=Code.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def refuse(request: DeleteAclsRequest, code: Code, message: str | None) -> DeleteAclsResponse:
    return _response((DeletedAcls(ChangeOutcome(code, message)),) * len(request.filters))
