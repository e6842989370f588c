"""CreateAcls (30), versions 1-3. A rule that is there already is not made twice, and no error, as in Kafka."""

from __future__ import annotations

import datetime

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

from chronik.api.acl_requests import acl_of, check_enabled
from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.access_changes import CreateAcls
from chronik.core.machines.metadata.commands import ChangeOutcome

REQUEST = CreateAclsRequest
RESPONSE = CreateAclsResponse


async def handle(request: CreateAclsRequest, caller: Caller, context: RequestContext) -> CreateAclsResponse:
    check_enabled(context)
    acls = tuple((context.chance.uuid(), acl_of(creation)) for creation in request.creations)
    return _response(await context.metadata.ask_here(CreateAcls(acls)))


def _response(outcomes: tuple[ChangeOutcome, ...]) -> CreateAclsResponse:
    results = tuple(AclCreationResult(error_code=one.code, error_message=one.message) for one in outcomes)
    return CreateAclsResponse(throttle_time=datetime.timedelta(0), results=results)


def refuse(request: CreateAclsRequest, code: Code, message: str | None) -> CreateAclsResponse:
    return _response((ChangeOutcome(code, message),) * len(request.creations))
