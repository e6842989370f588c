"""AddRaftVoter and RemoveRaftVoter."""

from __future__ import annotations

import datetime

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest, Listener
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest

from chronik.api import add_raft_voter, remove_raft_voter
from chronik.core.errors import Code, Refused
from tests.unit.api.fake_context import CLUSTER_ID, ask
from tests.unit.api.quorum_context import FakeQuorum, quorum_context


def to_add(cluster_id: str | None = CLUSTER_ID, *, is_waited_for: bool = True) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout=datetime.timedelta(seconds=1),
        voter_id=4,
        voter_directory_id=None,
        listeners=(Listener(name="CONTROLLER", host="host4", port=9004),),
        ack_when_committed=is_waited_for,
    )


def to_remove() -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=4, voter_directory_id=None)


def test_a_voter_is_added_with_its_address() -> None:
    quorum = FakeQuorum()

    responses = [
        ask(add_raft_voter, to_add(is_waited_for=is_waited_for), quorum_context(quorum), version=1)
        for is_waited_for in (True, False)
    ]

    assert [response.error_code for response in responses] == [Code.NONE, Code.NONE]
    assert quorum.asked == [("add", 4, ("host4", 9004), True), ("add", 4, ("host4", 9004), False)]


def test_a_voter_is_removed() -> None:
    quorum = FakeQuorum()

    response = ask(remove_raft_voter, to_remove(), quorum_context(quorum), version=0)

    assert response.error_code is Code.NONE
    assert quorum.asked == [("remove", 4)]


def test_a_refusal_is_passed_on() -> None:
    quorum = FakeQuorum()
    quorum.refusal = Refused(Code.DUPLICATE_VOTER, "node 4 is a voter already")

    added = ask(add_raft_voter, to_add(), quorum_context(quorum), version=1)
    removed = ask(remove_raft_voter, to_remove(), quorum_context(quorum), version=0)

    assert (added.error_code, added.error_message) == (Code.DUPLICATE_VOTER, "node 4 is a voter already")
    assert removed.error_code is Code.DUPLICATE_VOTER


def test_another_cluster_changes_nothing() -> None:
    quorum = FakeQuorum()

    response = ask(add_raft_voter, to_add("another"), quorum_context(quorum), version=1)

    assert response.error_code is Code.INCONSISTENT_CLUSTER_ID
    assert quorum.asked == []
