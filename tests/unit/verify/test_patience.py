"""Waiting for what is missing ends when it cannot come any more, and not before that is certain."""

from __future__ import annotations

import pytest

from chronik.verify.patience import UNSEEN_S, Ends, Patience
from chronik.verify.pulse import STALL_S

ENDS = {0: 10, 1: 20}
VISIBLE = Ends(ENDS, is_all_visible=True)


class Cluster:
    """Tells its ends one look after the other, and goes on telling the last."""

    def __init__(self, *told: Ends) -> None:
        self.told = list(told)
        self.looks = 0

    def __call__(self) -> Ends:
        self.looks += 1
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]


def test_two_looks_that_say_the_same_are_believed() -> None:
    patience = Patience(2, Cluster(VISIBLE))

    assert [patience.is_over(quiet_s, ENDS) for quiet_s in (STALL_S, STALL_S + 2)] == [False, True]


def test_nobody_is_asked_before_it_is_a_stall() -> None:
    cluster = Cluster(VISIBLE)
    patience = Patience(2, cluster)

    assert not any(patience.is_over(quiet_s, ENDS) for quiet_s in (0.0, 2.0, STALL_S - 0.1))
    assert cluster.looks == 0


@pytest.mark.parametrize("reached", [{0: 9, 1: 20}, {0: 10, 1: 0}])
def test_what_has_not_been_read_may_still_come(reached: dict[int, int]) -> None:
    patience = Patience(2, Cluster(VISIBLE))

    assert not any(patience.is_over(quiet_s, reached) for quiet_s in (6.0, 8.0, 100.0))


def test_an_end_that_moved_is_looked_at_again() -> None:
    moved = Ends({0: 10, 1: 21}, is_all_visible=True)
    patience = Patience(2, Cluster(VISIBLE, moved))

    assert not patience.is_over(6.0, ENDS)
    assert not patience.is_over(8.0, ENDS)
    assert [patience.is_over(quiet_s, moved.offsets) for quiet_s in (6.0, 8.0)] == [False, True]


def test_looks_that_say_the_same_with_another_between_are_not_believed() -> None:
    patience = Patience(2, Cluster(VISIBLE, Ends({0: 10}, is_all_visible=True), VISIBLE))

    assert [patience.is_over(6.0, ENDS) for _ in range(4)] == [False, False, False, True]


def test_a_partition_that_nobody_answers_for_may_have_more() -> None:
    patience = Patience(2, Cluster(Ends({0: 10}, is_all_visible=True)))

    assert not any(patience.is_over(quiet_s, ENDS) for quiet_s in (6.0, 8.0, 100.0))


def test_what_may_be_in_a_log_and_not_visible_yet_is_given_the_time() -> None:
    """What may be in a log and not visible yet is given the time that a follower has."""
    patience = Patience(2, Cluster(Ends(ENDS, is_all_visible=False)))

    waited = [patience.is_over(quiet_s, ENDS) for quiet_s in (6.0, 8.0, UNSEEN_S - 1, UNSEEN_S, UNSEEN_S + 2)]

    assert waited == [False, False, False, False, True]
