"""DescribeQuorum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.types import TopicName

from chronik.api import describe_quorum
from chronik.api.describe_quorum import REQUEST_OF_ALL, view_in
from chronik.core.errors import Code, Refused
from chronik.core.raft.view import QuorumView, ReplicaView
from tests.unit.api.fake_context import ask
from tests.unit.api.quorum_context import FakeQuorum, quorum_context

VIEW = QuorumView(
    2, 5, 90, (ReplicaView(2, 100, 1_000, 1_000), ReplicaView(9, 80, 900, -1)), (ReplicaView(4, 100, 990, 990),)
)


def test_the_leader_says_who_votes_and_how_far_everyone_is() -> None:
    quorum = FakeQuorum()
    quorum.view = VIEW

    response = ask(describe_quorum, REQUEST_OF_ALL, quorum_context(quorum), version=2)

    (part,) = response.topics[0].partitions
    assert (part.error_code, part.leader_id, part.leader_epoch, part.high_watermark) == (Code.NONE, 2, 5, 90)
    assert [(v.replica_id, v.log_end_offset, v.last_caught_up_timestamp) for v in part.current_voters] == [
        (2, 100, 1_000),
        (9, 80, -1),
    ]
    assert [observer.replica_id for observer in part.observers] == [4]
    # Of node 9 no address is known.
    assert [(node.node_id, node.listeners[0].host, node.listeners[0].port) for node in response.nodes] == [
        (2, "host2", 9002)
    ]
    assert view_in(response) == quorum.view


def test_another_node_names_the_leader() -> None:
    quorum = FakeQuorum()
    quorum.view = Refused(Code.NOT_LEADER_OR_FOLLOWER, "only the leader knows")

    response = ask(describe_quorum, REQUEST_OF_ALL, quorum_context(quorum), version=2)

    (part,) = response.topics[0].partitions
    assert (part.error_code, part.leader_id, part.leader_epoch) == (Code.NOT_LEADER_OR_FOLLOWER, 2, 5)
    with pytest.raises(Refused) as refused:
        view_in(response)
    assert refused.value.code is Code.NOT_LEADER_OR_FOLLOWER


def test_there_is_one_quorum_only() -> None:
    topic = replace(REQUEST_OF_ALL.topics[0], topic_name=TopicName("orders"))

    response = ask(describe_quorum, replace(REQUEST_OF_ALL, topics=(topic,)), quorum_context(FakeQuorum()), version=2)

    assert response.error_code is Code.INVALID_REQUEST
