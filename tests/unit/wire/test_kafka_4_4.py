"""Messages of Kafka 4.4 by their bytes: those that its own client (kafka-clients 4.4.0) writes."""

from __future__ import annotations

import datetime
import uuid

from chronik.core.errors import Code
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.kafka_4_4 import (
    ApiVersionsRequest,
    DeletableGroupResult,
    DeleteGroupsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API_VERSIONS_5 = bytes.fromhex("056a61766106342e342e300363310000000700")
API_VERSIONS_5_OF_NO_NODE = bytes.fromhex("056a61766106342e342e3000ffffffff00")
DELETE_GROUPS_3 = bytes.fromhex(
    "000000000302670044185468652067726f7570206973206e6f7420656d7074792e0002680000000000",
)
TXN_OFFSET_COMMIT_6 = bytes.fromhex(
    "03747802670000000000000007000200000009026d00020102030405060708090a0b0c0d0e0f100200000003000000000000002a00000005"
    "056e6f7465000000"
)
TXN_OFFSET_COMMIT_6_ANSWER = bytes.fromhex("00000000020102030405060708090a0b0c0d0e0f1002000000030071000000")
TOPIC_ID = uuid.UUID(bytes=bytes(range(1, 17)))


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


def test_txn_offset_commit_6_names_topics_by_id() -> None:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=3, committed_offset=42, committed_leader_epoch=5, committed_metadata="note"
    )
    topic = TxnOffsetCommitResponseTopic(
        topic_id=TOPIC_ID,
        partitions=(TxnOffsetCommitResponsePartition(partition_index=3, error_code=Code.STALE_MEMBER_EPOCH),),
    )

    request = decode_request(28, 6, TXN_OFFSET_COMMIT_6, 0, TxnOffsetCommitRequest)
    frame = encode_response(28, 6, 1, TxnOffsetCommitResponse(throttle_time=datetime.timedelta(0), topics=(topic,)))

    assert request == TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=7,
        producer_epoch=2,
        generation_id=9,
        member_id="m",
        group_instance_id=None,
        topics=(TxnOffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
    )
    assert frame.endswith(TXN_OFFSET_COMMIT_6_ANSWER)
    assert len(frame) == 9 + len(TXN_OFFSET_COMMIT_6_ANSWER)
