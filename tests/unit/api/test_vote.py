"""Vote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.api import vote
from chronik.core.errors import Code, Refused
from chronik.core.raft.messages import LogPoint, Vote, VoteAnswer
from tests.unit.api.fake_context import CLUSTER_ID, ask, fake_context
from tests.unit.api.quorum_context import FakeQuorum, quorum_context

ASKED = Vote(3, 7, LogPoint(6, 100), is_pre_vote=True)


def said(answer: VoteAnswer, request: Any = None) -> Any:
    quorum = FakeQuorum(answer)
    return ask(vote, request or vote.request_of(ASKED, 1, CLUSTER_ID), quorum_context(quorum), version=2, node_id=3)


@pytest.mark.parametrize("is_granted", [True, False])
@pytest.mark.parametrize("leader", [2, None])
def test_what_one_side_says_the_other_hears(is_granted: bool, leader: int | None) -> None:
    quorum = FakeQuorum(VoteAnswer(1, 7, leader, is_granted, is_pre_vote=True))

    response = ask(vote, vote.request_of(ASKED, 1, CLUSTER_ID), quorum_context(quorum), version=2, node_id=3)

    assert quorum.asked == [ASKED]
    assert vote.answer_of(response, ASKED, 1) == quorum.answer


def test_another_cluster_is_not_answered() -> None:
    response = said(VoteAnswer(1, 7, None, True), vote.request_of(ASKED, 1, "another"))

    assert response.error_code is Code.INCONSISTENT_CLUSTER_ID
    with pytest.raises(Refused):
        vote.answer_of(response, ASKED, 1)


def test_a_request_for_another_node_is_refused() -> None:
    """KIP-853: its address was given to this node."""
    response = said(VoteAnswer(1, 7, None, True), vote.request_of(ASKED, 4, CLUSTER_ID))

    assert response.error_code is Code.INVALID_VOTER_KEY


def test_only_the_metadata_log_is_voted_on() -> None:
    request = vote.request_of(ASKED, 1, CLUSTER_ID)
    topic = replace(request.topics[0], topic_name="orders")

    for topics in ((topic,), (), (request.topics[0], request.topics[0])):
        response = said(VoteAnswer(1, 7, None, True), replace(request, topics=topics))
        assert response.error_code is Code.INVALID_REQUEST


def test_a_node_without_a_quorum_says_so() -> None:
    response = ask(vote, vote.request_of(ASKED, 1, CLUSTER_ID), fake_context(), version=2, node_id=3)

    assert response.error_code is Code.NOT_LEADER_OR_FOLLOWER


def test_a_disk_that_fails_grants_nothing() -> None:
    quorum = FakeQuorum()
    quorum.refusal = Refused(Code.KAFKA_STORAGE_ERROR)

    response = ask(vote, vote.request_of(ASKED, 1, CLUSTER_ID), quorum_context(quorum), version=2, node_id=3)

    assert response.error_code is Code.KAFKA_STORAGE_ERROR
    assert response.topics == ()
