"""BrokerHeartbeat (63), versions 0-2. A node is alive, and says how far it has followed the metadata.

The response says whether it may serve, and, when it wants to stop, whether it may do so now. Only the controller
answers it.
"""

from __future__ import annotations

import datetime

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.node_sender import check_is_node
from chronik.core.errors import Code
from chronik.core.machines.metadata.controller_commands import BrokerHeartbeat, HeartbeatAnswer

REQUEST = BrokerHeartbeatRequest
RESPONSE = BrokerHeartbeatResponse


async def handle(request: BrokerHeartbeatRequest, caller: Caller, context: RequestContext) -> BrokerHeartbeatResponse:
    check_is_node(request.broker_id, caller)
    command = BrokerHeartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        seen_version=request.current_metadata_offset,
        wants_fence=request.want_fence,
        wants_shut_down=request.want_shut_down,
    )
    return _response(Code.NONE, await context.metadata.ask_here(command))


def _response(code: Code, answer: HeartbeatAnswer) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        throttle_time=datetime.timedelta(0),
        error_code=code,
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )


def refuse(request: BrokerHeartbeatRequest, code: Code, message: str | None) -> BrokerHeartbeatResponse:
    return _response(code, HeartbeatAnswer(is_caught_up=False, is_fenced=True, should_shut_down=False))
