"""Where logs may begin: what was asked to be deleted may be gone, and what was said to be gone stays so."""

from __future__ import annotations

import pytest

from chronik.core.types import TopicPartition
from chronik.sim.starts import Starts
from chronik.sim.story import Violation, WorldStory

NAME = TopicPartition("topic", 0)


@pytest.fixture
def starts() -> Starts:
    return Starts(WorldStory(lambda: 0.0))


def test_a_log_begins_at_most_where_deletion_was_asked_for(starts: Starts) -> None:
    starts.asked(NAME, 5)

    starts.begins("c", NAME, 0, 0)
    starts.begins("c", NAME, 5, 0)
    with pytest.raises(Violation, match="begins at 6, and only what is below 5"):
        starts.begins("c", NAME, 6, 0)


def test_everything_may_go_when_that_was_asked_for(starts: Starts) -> None:
    starts.asked(NAME, -1)
    starts.asked(NAME, 3)

    starts.begins("c", NAME, 1_000, 0)


def test_what_was_said_to_be_gone_stays_gone_at_this_leader_and_later_ones(starts: Starts) -> None:
    starts.asked(NAME, 5)
    starts.deleted(NAME, 4, leader_epoch=2)

    assert (starts.gone(NAME, 1), starts.gone(NAME, 2), starts.gone(NAME, 7)) == (0, 4, 4)
    with pytest.raises(Violation, match="said to be deleted up to 4"):
        starts.begins("c", NAME, 3, starts.gone(NAME, 2))
    with pytest.raises(Violation, match="has something at 3"):
        starts.gave("c", NAME, 3, starts.gone(NAME, 2))
    starts.gave("c", NAME, 3, starts.gone(NAME, 1))
