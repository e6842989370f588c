"""FetchSnapshot."""

from __future__ import annotations

import pytest

from chronik.api import fetch_snapshot
from chronik.core.errors import Code, Refused
from chronik.core.raft.messages import FetchSnapshot, FetchSnapshotAnswer, LogPoint
from tests.unit.api.fake_context import CLUSTER_ID, ask
from tests.unit.api.quorum_context import FakeQuorum, quorum_context

POINT = LogPoint(3, 100)
ASKED = FetchSnapshot(3, 5, POINT, 4, 1000)


def test_the_bytes_travel_with_the_answer() -> None:
    quorum = FakeQuorum(FetchSnapshotAnswer(1, 5, 1, POINT, 4, 10, 20))
    quorum.snapshot = bytes(range(20))

    response = ask(
        fetch_snapshot, fetch_snapshot.request_of(ASKED, 1, CLUSTER_ID), quorum_context(quorum), version=1, node_id=3
    )
    answer, content = fetch_snapshot.answer_of(response, ASKED, 1)

    assert quorum.asked == [ASKED]
    assert answer == quorum.answer
    assert content == bytes(range(4, 10))


def test_a_refusal_brings_no_bytes() -> None:
    refused = FetchSnapshotAnswer(1, 6, None, POINT, 4, code=Code.SNAPSHOT_NOT_FOUND)
    quorum = FakeQuorum(refused)
    quorum.snapshot = bytes(20)

    response = ask(
        fetch_snapshot, fetch_snapshot.request_of(ASKED, 1, CLUSTER_ID), quorum_context(quorum), version=1, node_id=3
    )
    answer, content = fetch_snapshot.answer_of(response, ASKED, 1)

    assert (answer.code, answer.leader, answer.epoch) == (Code.SNAPSHOT_NOT_FOUND, None, 6)
    assert content == b""


def test_another_cluster_gets_nothing() -> None:
    response = ask(
        fetch_snapshot,
        fetch_snapshot.request_of(ASKED, 1, "another"),
        quorum_context(FakeQuorum()),
        version=1,
        node_id=3,
    )

    assert response.error_code is Code.INCONSISTENT_CLUSTER_ID
    with pytest.raises(Refused):
        fetch_snapshot.answer_of(response, ASKED, 1)
