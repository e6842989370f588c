"""Who holds which partition of a KIP-848 group: two at one time are found, and what is right is not."""

from __future__ import annotations

import pytest

from chronik.core.types import TopicPartition
from chronik.sim.holders import Holders
from chronik.sim.story import Violation, WorldStory

GROUP = "group"
FIRST, SECOND = TopicPartition("topic", 0), TopicPartition("topic", 1)


@pytest.fixture
def holders() -> Holders:
    return Holders(WorldStory(lambda: 0.0))


def told(holders: Holders, member_id: str, epoch: int, *names: TopicPartition, sent_ms: int = 10) -> None:
    """An answer to a heartbeat arrives."""
    holders.answered(GROUP, member_id, epoch, sent_ms)
    holders.gained(GROUP, member_id, names)


def test_a_partition_passes_on_when_its_holder_has_let_go_of_it(holders: Holders) -> None:
    told(holders, "a", 1, FIRST, SECOND)
    holders.let_go(GROUP, "a", [SECOND])

    told(holders, "b", 2, SECOND)

    assert holders.are_all_held(GROUP, [FIRST, SECOND])


def test_a_partition_that_is_given_out_before_it_is_let_go_of_is_found(holders: Holders) -> None:
    told(holders, "a", 1, FIRST, SECOND)
    holders.let_go(GROUP, "a", [SECOND])

    with pytest.raises(Violation, match="belongs to a since epoch 1 of group, and to b at epoch 2"):
        told(holders, "b", 2, FIRST)


def test_groups_do_not_share(holders: Holders) -> None:
    told(holders, "a", 1, FIRST)

    holders.answered("another", "b", 1, 10)
    holders.gained("another", "b", [FIRST])


def test_who_begins_anew_holds_nothing(holders: Holders) -> None:
    told(holders, "a", 1, FIRST)
    holders.dropped_all(GROUP, "a")

    told(holders, "b", 2, FIRST)


def test_who_was_given_up_without_knowing_it_breaks_no_promise(holders: Holders) -> None:
    told(holders, "a", 1, FIRST, sent_ms=10)
    holders.ended(GROUP, "a", 20)
    assert not holders.are_all_held(GROUP, [FIRST])

    told(holders, "b", 2, FIRST, sent_ms=30)

    assert holders.are_all_held(GROUP, [FIRST])


def test_an_answer_that_comes_after_its_session_has_ended_gives_nothing(holders: Holders) -> None:
    holders.ended(GROUP, "a", 20)
    told(holders, "b", 2, FIRST, sent_ms=30)

    told(holders, "a", 1, FIRST, sent_ms=10)


def test_an_end_that_never_became_safe_is_taken_back_by_the_next_answer(holders: Holders) -> None:
    told(holders, "a", 1, FIRST, sent_ms=10)
    holders.ended(GROUP, "a", 20)
    told(holders, "a", 1, sent_ms=30)

    with pytest.raises(Violation, match="belongs to a"):
        told(holders, "b", 2, FIRST, sent_ms=40)


def test_a_heartbeat_that_was_given_up_may_let_go_of_what_came_after_it(holders: Holders) -> None:
    told(holders, "a", 1, FIRST)
    holders.gave_up(GROUP, "a", 1, [FIRST])
    told(holders, "a", 1, SECOND)

    told(holders, "b", 2, SECOND)
    with pytest.raises(Violation, match="topic-0 belongs to a"):
        told(holders, "b", 2, FIRST)


def test_a_heartbeat_of_two_epochs_ago_is_not_listened_to(holders: Holders) -> None:
    told(holders, "a", 1, FIRST)
    holders.gave_up(GROUP, "a", 1, [FIRST])
    told(holders, "a", 2, SECOND)
    told(holders, "a", 3)

    with pytest.raises(Violation, match="topic-1 belongs to a"):
        told(holders, "b", 4, SECOND)


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_goes_back_is_found(holders: Holders, epoch: int) -> None:
    told(holders, "a", 2)

    with pytest.raises(Violation, match="was at epoch 2"):
        told(holders, "a", epoch)


def test_who_holds_what_another_got_later_is_overtaken(holders: Holders) -> None:
    told(holders, "a", 1, FIRST, SECOND, sent_ms=10)
    holders.ended(GROUP, "a", 20)
    told(holders, "b", 2, FIRST, sent_ms=30)

    assert holders.is_overtaken(GROUP, "a", FIRST)
    assert not holders.is_overtaken(GROUP, "a", SECOND)
    assert not holders.is_overtaken(GROUP, "b", FIRST)


def test_a_late_answer_overtakes_nobody(holders: Holders) -> None:
    holders.ended(GROUP, "a", 20)
    told(holders, "b", 2, FIRST, sent_ms=30)
    told(holders, "a", 1, FIRST, sent_ms=10)

    assert not holders.is_overtaken(GROUP, "b", FIRST)
    assert holders.is_overtaken(GROUP, "a", FIRST)
