"""DescribeCluster."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

from chronik.api import describe_cluster
from chronik.core.errors import Code
from chronik.core.machines.metadata.records import BrokerEndpoint, RegisterBrokerRecord
from tests.unit.api.fake_context import CLUSTER_ID, ask, fake_context


def request(endpoint_type: int = 1, *, fenced: bool = False, operations: bool = False) -> Any:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced
    )


def test_the_live_brokers_are_named_and_the_fenced_ones_when_asked_for() -> None:
    context = fake_context(brokers=(2, 1))
    end_points = (BrokerEndpoint("PLAINTEXT", "host-3", 9092, 0),)
    context.metadata.image.apply(RegisterBrokerRecord(3, bytes(16), 9, end_points, (), "rack", True, False))

    response = ask(describe_cluster, request(), context, version=2)
    with_fenced = ask(describe_cluster, request(fenced=True), context, version=2)

    assert (response.error_code, response.cluster_id, response.controller_id) == (Code.NONE, CLUSTER_ID, 1)
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [
        (1, "host-1", 9092),
        (2, "host-2", 9092),
    ]
    assert [(one.broker_id, one.is_fenced, one.rack) for one in with_fenced.brokers] == [
        (1, False, None),
        (2, False, None),
        (3, True, "rack"),
    ]


def test_what_the_client_may_do_is_told_when_asked() -> None:
    assert ask(describe_cluster, request(operations=True), fake_context(), 2).cluster_authorized_operations == 8096
    assert ask(describe_cluster, request(), fake_context(), 2).cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, Code.MISMATCHED_ENDPOINT_TYPE), (7, Code.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_this_is_no_controllers_port(endpoint: int, code: Code) -> None:
    response = ask(describe_cluster, request(endpoint), fake_context(), version=2)

    assert response.error_code is code
    assert response.error_message
