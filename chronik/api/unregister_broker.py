"""UnregisterBroker (64), version 0. A broker will not come back: it is taken off the list and out of all in-sync sets.

Runs on the controller. One that is alive all the same registers again with its next heartbeat.
"""

from __future__ import annotations

import datetime

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.controller_commands import UnregisterBroker

REQUEST = UnregisterBrokerRequest
RESPONSE = UnregisterBrokerResponse


async def handle(request: UnregisterBrokerRequest, caller: Caller, context: RequestContext) -> UnregisterBrokerResponse:
    await context.metadata.ask_here(UnregisterBroker(request.broker_id))
    return refuse(request, Code.NONE, None)


def refuse(request: UnregisterBrokerRequest, code: Code, message: str | None) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(throttle_time=datetime.timedelta(0), error_code=code, error_message=message)
