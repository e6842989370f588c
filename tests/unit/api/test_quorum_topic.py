"""Who may say something in the name of a node (F45, F46)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from chronik.api import begin_quorum_epoch, end_quorum_epoch, fetch_snapshot, quorum_fetch, vote
from chronik.core.errors import Code, Refused
from chronik.core.raft import messages as m
from chronik.core.raft.messages import LogPoint
from chronik.wire import fetch as wire
from chronik.wire import follower_fetch
from chronik.wire.framing import read_header
from tests.unit.api.calls import call_of
from tests.unit.api.fake_context import CLUSTER_ID, ask, caller
from tests.unit.api.quorum_context import FakeQuorum, quorum_context

POINT = LogPoint(4, 100)
ASKED: dict[Any, Any] = {
    vote: m.Vote(3, 5, POINT),
    begin_quorum_epoch: m.BeginEpoch(3, 5),
    end_quorum_epoch: m.EndEpoch(3, 5, (1,)),
    fetch_snapshot: m.FetchSnapshot(3, 5, POINT, 0, 1000),
}


@pytest.mark.parametrize("module", ASKED, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, 3, Code.INCONSISTENT_CLUSTER_ID),
        ("", 3, Code.INCONSISTENT_CLUSTER_ID),
        ("another", 3, Code.INCONSISTENT_CLUSTER_ID),
        (CLUSTER_ID, 2, Code.CLUSTER_AUTHORIZATION_FAILED),
        (CLUSTER_ID, -1, Code.CLUSTER_AUTHORIZATION_FAILED),
    ],
    ids=["no cluster", "an empty one", "another cluster", "another node", "a client"],
)
def test_a_request_in_the_name_of_a_node_is_refused(
    module: Any, cluster_id: str | None, node_id: int, code: Code
) -> None:
    quorum = FakeQuorum()
    request = replace(module.request_of(ASKED[module], 1, CLUSTER_ID), cluster_id=cluster_id)

    response = ask(module, request, quorum_context(quorum), 1, node_id)

    assert response.error_code is code
    assert quorum.asked == []


def fetched(quorum: FakeQuorum, sender: int, cluster_id: str, node_id: int) -> Code:
    frame = memoryview(quorum_fetch.frame_of(m.Fetch(sender, 5, POINT), cluster_id, 0, 42))
    header = read_header(frame)
    request = wire.parse(frame, header.body, header.version)
    answers: list[Any] = []
    call = call_of(frame, header, caller(header.version, node_id), answers.append)
    quorum_fetch.begin(call, request, quorum_context(quorum))
    ((*pieces,),) = answers
    return follower_fetch.parse(memoryview(b"".join(bytes(piece) for piece in pieces)[4:])).error


def test_nor_does_a_fetch_count() -> None:
    quorum = FakeQuorum()

    assert fetched(quorum, 3, "another", 3) is Code.INCONSISTENT_CLUSTER_ID
    assert fetched(quorum, 3, CLUSTER_ID, 2) is Code.CLUSTER_AUTHORIZATION_FAILED
    assert fetched(quorum, 3, CLUSTER_ID, -1) is Code.CLUSTER_AUTHORIZATION_FAILED
    assert quorum.asked == []


def test_a_client_that_claims_no_id_does_not_read_the_metadata_log() -> None:
    """It has the credentials of all users in it."""
    quorum = FakeQuorum()

    assert fetched(quorum, -1, CLUSTER_ID, -1) is Code.CLUSTER_AUTHORIZATION_FAILED
    assert quorum.asked == []


@pytest.mark.parametrize(("node_id", "sender"), [(3, 3), (9, m.NO_NODE)])
def test_nothing_is_remembered_of_a_node_that_is_not_known(node_id: int, sender: int) -> None:
    quorum = FakeQuorum(lambda fetch: m.RaftFetchAnswer(1, 5, 1, fetch.log_end, high_watermark=100))
    quorum.replica = SimpleNamespace(log=SimpleNamespace(start_offset=0, end_offset=100))

    assert fetched(quorum, node_id, CLUSTER_ID, node_id) is Code.NONE

    assert [asked.sender for asked in quorum.asked] == [sender]
    assert {node_id: told.high_watermark for node_id, told in quorum.last_answers.items()} == (
        {3: 100} if sender == 3 else {}
    )
    assert quorum.applied.noted == ({3: 42} if sender == 3 else {})


def test_a_snapshot_that_cannot_be_read_is_no_fault() -> None:
    class Unreadable(FakeQuorum):
        def read_snapshot_part(self, point: LogPoint, position: int, length: int) -> bytes:
            raise OSError("too many open files")

    quorum = Unreadable(m.FetchSnapshotAnswer(1, 5, 1, POINT, 0, 10, 20))
    request = fetch_snapshot.request_of(ASKED[fetch_snapshot], 1, CLUSTER_ID)

    response = ask(fetch_snapshot, request, quorum_context(quorum), 1, 3)

    assert response.error_code is Code.KAFKA_STORAGE_ERROR
    with pytest.raises(Refused):
        fetch_snapshot.answer_of(response, ASKED[fetch_snapshot], 1)
