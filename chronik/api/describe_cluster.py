"""DescribeCluster (60), versions 0-2. The nodes, and which node is in charge.

From 1 a client may say that it expects a controller's port, which this is not; from 2 it may ask for the nodes that are
registered but out (fenced).
"""

from __future__ import annotations

import datetime

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse

from chronik.api.authorization import operations_of
from chronik.api.context import Caller, RequestContext
from chronik.api.metadata import controller_of
from chronik.api.permissions import ALL_ON_CLUSTER, NOT_ASKED
from chronik.core.access.acls import CLUSTER_NAME
from chronik.core.access.operations import AclResourceType
from chronik.core.errors import Code, Refused

REQUEST = DescribeClusterRequest
RESPONSE = DescribeClusterResponse

BROKERS = 1
CONTROLLERS = 2


def handle(request: DescribeClusterRequest, caller: Caller, context: RequestContext) -> DescribeClusterResponse:
    _check_endpoint(request.endpoint_type)
    image = context.metadata.image
    brokers = sorted(image.brokers.values(), key=lambda broker: broker.id)
    return DescribeClusterResponse(
        throttle_time=datetime.timedelta(0),
        error_code=Code.NONE,
        cluster_id=context.cluster_id,
        controller_id=controller_of(context),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=broker.id, host=address[0], port=address[1], rack=broker.rack, is_fenced=broker.is_fenced
            )
            for broker in brokers
            if (address := broker.reached_by(caller.listener)) is not None
            and (request.include_fenced_brokers or not broker.is_fenced)
        ),
        cluster_authorized_operations=operations_of(
            context, caller, "describe_cluster", AclResourceType.CLUSTER, CLUSTER_NAME, ALL_ON_CLUSTER
        )
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _check_endpoint(endpoint_type: int) -> None:
    if endpoint_type == BROKERS:
        return
    if endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        raise Refused(Code.MISMATCHED_ENDPOINT_TYPE, message)
    raise Refused(Code.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}")


def refuse(request: DescribeClusterRequest, code: Code, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=datetime.timedelta(0), error_code=code, error_message=message, cluster_id="", brokers=()
    )
