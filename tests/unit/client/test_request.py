"""One question to one node: the answer, or in plain words why there is none."""

from __future__ import annotations

import datetime

import pytest
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from chronik.client.cluster_view import ClusterView, view_of
from chronik.client.request import NoAnswer
from chronik.core.errors import Code
from chronik.wire.codec import encode_response
from tests.unit.client.answering import Answer, answering

METADATA = 3


def metadata(request: bytes, is_answer_to_another: bool = False) -> bytes:
    """Two live nodes, the second of them the controller, and a topic whose partition 1 no node leads."""
    partitions = tuple(
        MetadataResponsePartition(
            error_code=Code.NONE if leader >= 0 else Code.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=leader,
            replica_nodes=(1,),
            isr_nodes=(1,),
            offline_replicas=(),
        )
        for number, leader in enumerate([1, -1])
    )
    response = MetadataResponse(
        throttle_time=datetime.timedelta(0),
        brokers=tuple(MetadataResponseBroker(node_id=each, host="here", port=9090 + each) for each in (1, 2)),
        cluster_id="a-cluster",
        controller_id=2,
        topics=(
            MetadataResponseTopic(
                error_code=Code.NONE, name="orders", topic_id=None, is_internal=False, partitions=partitions
            ),
        ),
    )
    correlation_id = int.from_bytes(request[8:12], "big") + is_answer_to_another
    return encode_response(METADATA, 12, correlation_id, response)


def test_a_node_tells_who_is_there_and_what_nobody_leads() -> None:
    with answering(metadata) as address:
        view = view_of(address)

    assert view == ClusterView(
        "a-cluster",
        2,
        {1: ("here", 9091), 2: ("here", 9092)},
        leaderless=(("orders", 1),),
        replicas={("orders", 0): (1,), ("orders", 1): (1,)},
    )
    assert (view.held_by(1), view.held_by(2)) == ([("orders", 0), ("orders", 1)], [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (lambda request: b"", "it hung up"),
        (lambda request: metadata(request)[:20], "it hung up"),
        (lambda request: (9).to_bytes(4, "big") + request[8:12] + b"\x00\xff\xff\xff\xff", "what cannot be read"),
        (lambda request: metadata(request, is_answer_to_another=True), "the answer to another question"),
    ],
    ids=["not kafka", "nothing", "half", "nonsense", "another answer"],
)
def test_an_answer_that_makes_no_sense_is_said_in_plain_words(answer: Answer, words: str) -> None:
    with answering(answer) as address, pytest.raises(NoAnswer, match=words):
        view_of(address)


def test_no_answer_in_time_and_nobody_there_are_told_apart() -> None:
    with answering(None) as address, pytest.raises(NoAnswer, match=r"does not answer in 0\.05 s"):
        view_of(address, timeout_s=0.05)

    with pytest.raises(NoAnswer, match="Connection refused"):
        view_of(address)


def test_a_name_that_cannot_be_looked_up_is_nobody() -> None:
    with pytest.raises(NoAnswer, match=r"a\.\.b:9092 does not answer: a\.\.b cannot be a host name"):
        view_of(("a..b", 9092))
