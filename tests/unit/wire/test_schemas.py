"""Which type stands for which message and version."""

from __future__ import annotations

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from chronik.wire import kafka_4_4
from chronik.wire.schemas import request_type, response_type


def test_the_types_are_kios_and_ours_where_kio_has_none() -> None:
    assert request_type(18, 4) is ApiVersionsRequest
    assert request_type(18, 5) is kafka_4_4.ApiVersionsRequest
    assert response_type(18, 5) is kafka_4_4.ApiVersionsResponse
    assert (request_type(42, 3), response_type(42, 3)) == (
        kafka_4_4.DeleteGroupsRequest,
        kafka_4_4.DeleteGroupsResponse,
    )
    assert (request_type(28, 6), response_type(28, 6)) == (
        kafka_4_4.TxnOffsetCommitRequest,
        kafka_4_4.TxnOffsetCommitResponse,
    )
