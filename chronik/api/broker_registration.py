"""BrokerRegistration (62), versions 0-4. A node joins the cluster; its answer is the epoch it signs with from then on.

Only the controller answers it. As in Kafka a broker registers fenced. Its last listener is where other nodes
reach it, the others are for clients. A previous broker epoch of -1 (from version 3 on), in
Kafka the sign of a stop that was not clean, means here that nothing was ever on that disk: what is acknowledged is
synced, so that a kill loses nothing. Where it is not (`durability = "os"`), a node whose stop was not clean says with
-2 less its previous epoch that it has that epoch's disk, and perhaps not all that it acknowledged.
"""

from __future__ import annotations

import datetime

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

from chronik.api import topic_ids
from chronik.api.context import Caller, RequestContext
from chronik.api.node_sender import check_is_node
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.records import BrokerEndpoint

REQUEST = BrokerRegistrationRequest
RESPONSE = BrokerRegistrationResponse

PREVIOUS_EPOCH_FROM = 3
NO_EPOCH = -1
SHORTENED = -2


async def handle(
    request: BrokerRegistrationRequest, caller: Caller, context: RequestContext
) -> BrokerRegistrationResponse:
    if not context.metadata.is_controller:
        raise Refused(Code.NOT_CONTROLLER)
    if request.cluster_id != context.cluster_id:
        message = f"Expected cluster ID {context.cluster_id}, but got cluster ID {request.cluster_id}"
        raise Refused(Code.INCONSISTENT_CLUSTER_ID, message)
    if request.broker_id < 0:
        raise Refused(Code.INVALID_REGISTRATION, f"No broker has the id {request.broker_id}.")
    if request.broker_id == context.node_id:
        # This node's own broker does not come this way.
        raise Refused(Code.DUPLICATE_BROKER_REGISTRATION, f"The controller itself has the id {context.node_id}.")
    check_is_node(request.broker_id, caller)  # what is registered stays in the metadata, for good
    if not request.listeners:
        raise Refused(Code.INVALID_REGISTRATION, "No listeners specified in request")
    end_points = tuple(
        BrokerEndpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
    )
    for_clients, for_nodes = end_points[:-1] or end_points, end_points[-1]
    previous_epoch = request.previous_broker_epoch
    is_new_disk = caller.version >= PREVIOUS_EPOCH_FROM and previous_epoch == NO_EPOCH
    is_shortened = previous_epoch <= SHORTENED
    command = RegisterBroker(
        broker_id=request.broker_id,
        incarnation_id=topic_ids.from_wire(request.incarnation_id) or bytes(16),
        host=for_clients[0].host,
        port=for_clients[0].port,
        rack=request.rack,
        is_fenced=True,
        has_lost_its_log=is_new_disk,
        has_lost_its_tail=is_shortened,
        previous_epoch=SHORTENED - previous_epoch if is_shortened else previous_epoch,
        internal_host=for_nodes.host,
        internal_port=for_nodes.port,
        end_points=for_clients,
        principal=caller.principal,
    )
    return _response(Code.NONE, await context.metadata.ask_here(command))


def _response(code: Code, broker_epoch: int) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(throttle_time=datetime.timedelta(0), error_code=code, broker_epoch=broker_epoch)


def refuse(request: BrokerRegistrationRequest, code: Code, message: str | None) -> BrokerRegistrationResponse:
    return _response(code, NO_EPOCH)
