"""EndQuorumEpoch."""

from __future__ import annotations

import pytest

from chronik.api import end_quorum_epoch
from chronik.core.errors import Code, Refused
from chronik.core.raft.messages import EndEpoch, EndEpochAnswer
from tests.unit.api.fake_context import CLUSTER_ID, ask
from tests.unit.api.quorum_context import FakeQuorum, quorum_context

ASKED = EndEpoch(2, 7, (3, 1))


@pytest.mark.parametrize(
    "answer", [EndEpochAnswer(1, 7, 2), EndEpochAnswer(1, 8, None, Code.FENCED_LEADER_EPOCH)], ids=["taken", "late"]
)
def test_what_one_side_says_the_other_hears(answer: EndEpochAnswer) -> None:
    quorum = FakeQuorum(answer)

    response = ask(
        end_quorum_epoch,
        end_quorum_epoch.request_of(ASKED, 1, CLUSTER_ID),
        quorum_context(quorum),
        version=1,
        node_id=2,
    )

    assert quorum.asked == [ASKED]
    assert end_quorum_epoch.answer_of(response, ASKED, 1) == answer


def test_another_cluster_is_not_heard() -> None:
    quorum = FakeQuorum()

    response = ask(
        end_quorum_epoch, end_quorum_epoch.request_of(ASKED, 1, "another"), quorum_context(quorum), version=1, node_id=2
    )

    assert response.error_code is Code.INCONSISTENT_CLUSTER_ID
    assert quorum.asked == []
    with pytest.raises(Refused):
        end_quorum_epoch.answer_of(response, ASKED, 1)
