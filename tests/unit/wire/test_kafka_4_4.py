"""Messages of Kafka 4.4 by their bytes: those that its own client (kafka-clients 4.4.0) writes."""

from __future__ import annotations

import datetime

from chronik.core.errors import Code
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.kafka_4_4 import ApiVersionsRequest, DeletableGroupResult, DeleteGroupsResponse

API_VERSIONS_5 = bytes.fromhex("056a61766106342e342e300363310000000700")
API_VERSIONS_5_OF_NO_NODE = bytes.fromhex("056a61766106342e342e3000ffffffff00")
DELETE_GROUPS_3 = bytes.fromhex(
    "000000000302670044185468652067726f7570206973206e6f7420656d7074792e0002680000000000",
)


def test_api_versions_5_says_which_node_is_meant() -> None:
    request = decode_request(18, 5, API_VERSIONS_5, 0, ApiVersionsRequest)
    of_none = decode_request(18, 5, API_VERSIONS_5_OF_NO_NODE, 0, ApiVersionsRequest)

    assert (request.client_software_name, request.client_software_version) == ("java", "4.4.0")
    assert (request.cluster_id, request.node_id) == ("c1", 7)
    assert (of_none.cluster_id, of_none.node_id) == (None, -1)


def test_delete_groups_3_has_a_message() -> None:
    results = (
        DeletableGroupResult(group_id="g", error_code=Code.NON_EMPTY_GROUP, error_message="The group is not empty."),
        DeletableGroupResult(group_id="h", error_code=Code.NONE),
    )

    frame = encode_response(42, 3, 1, DeleteGroupsResponse(throttle_time=datetime.timedelta(0), results=results))

    assert frame.endswith(DELETE_GROUPS_3)
    assert len(frame) == 9 + len(DELETE_GROUPS_3)  # size, correlation id, no tagged fields in the header
