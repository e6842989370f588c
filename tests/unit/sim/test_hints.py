"""Leader hints: one that no node led, one that is over, and one that is elsewhere are found."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chronik.core.types import TopicPartition
from chronik.sim.hints import LeaderHints, Placed
from chronik.sim.story import Violation, WorldStory

NAME = TopicPartition("t", 0)
ID, OTHER_ID = bytes(15) + b"\x01", bytes(15) + b"\x02"


@pytest.fixture
def hints() -> LeaderHints:
    made = LeaderHints(WorldStory(lambda: 0.0))
    made.had(NAME, 1, 4)
    made.had(NAME, 2, 5)
    return made


def hint(leader_id: int, leader_epoch: int) -> SimpleNamespace:
    return SimpleNamespace(leader_id=leader_id, leader_epoch=leader_epoch)


def test_a_leader_that_there_was_may_be_named(hints: LeaderHints) -> None:
    hints.heard("c", NAME, hint(2, 5), Placed(ID, 4), Placed(ID, 5))
    hints.heard("c", NAME, hint(1, 4), Placed(ID, 4), Placed(ID, 5))
    hints.heard("c", NAME, hint(1, 4), None, None)

    assert hints.checked == 3


def test_no_hint_is_none(hints: LeaderHints) -> None:
    hints.heard("c", NAME, hint(-1, -1), Placed(ID, 5), Placed(ID, 5))

    assert hints.checked == 0


@pytest.mark.parametrize(("leader_id", "leader_epoch"), [(1, 5), (2, 4), (3, 6), (-1, 5)])
def test_a_leader_that_there_never_was_is_found(hints: LeaderHints, leader_id: int, leader_epoch: int) -> None:
    with pytest.raises(Violation, match="never was"):
        hints.heard("c", NAME, hint(leader_id, leader_epoch), None, None)


def test_a_leader_without_an_epoch_is_found(hints: LeaderHints) -> None:
    with pytest.raises(Violation, match="in no epoch"):
        hints.heard("c", NAME, hint(1, -1), None, None)


def test_a_leader_that_was_over_for_the_node_itself_is_found(hints: LeaderHints) -> None:
    with pytest.raises(Violation, match="knew of 5"):
        hints.heard("c", NAME, hint(1, 4), Placed(ID, 5), Placed(ID, 5))


def test_a_topic_made_anew_begins_its_epochs_anew(hints: LeaderHints) -> None:
    hints.heard("c", NAME, hint(1, 4), Placed(ID, 5), Placed(OTHER_ID, 4))

    assert hints.checked == 1


def test_a_leader_that_is_elsewhere_is_found(hints: LeaderHints) -> None:
    hints.endpoints("c", [SimpleNamespace(node_id=2, host="node2", port=9092)])

    with pytest.raises(Violation, match="node2 is said to be at node3:9092"):
        hints.endpoints("c", [SimpleNamespace(node_id=2, host="node3", port=9092)])
