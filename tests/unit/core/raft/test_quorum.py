"""Voters and their majorities."""

from __future__ import annotations

import itertools

import pytest

from chronik.core.raft.quorum import VoterHistory, Voters, VotersAt


@pytest.mark.parametrize(
    ("ids", "majority"), [((1,), 1), ((1, 2), 2), ((1, 2, 3), 2), ((1, 2, 3, 4), 3), ((1, 2, 3, 4, 5), 3)]
)
def test_a_majority_is_more_than_half(ids: tuple[int, ...], majority: int) -> None:
    assert Voters(ids).majority == majority


def test_any_two_majorities_of_voters_that_differ_by_one_share_a_voter() -> None:
    """Raft, section 4.1: this is why voters change one at a time."""
    for count in range(1, 6):
        before, after = Voters(tuple(range(count))), Voters(tuple(range(count + 1)))
        for one in itertools.combinations(before.ids, before.majority):
            for other in itertools.combinations(after.ids, after.majority):
                assert frozenset(one) & frozenset(other)


@pytest.mark.parametrize("ids", [(), (2, 1), (1, 1)])
def test_voters_are_each_there_once_in_order_and_at_least_one(ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="voters"):
        Voters(ids)


@pytest.mark.parametrize(
    ("values", "reached"),
    [
        ({}, -1),
        ({1: 9}, -1),
        ({1: 9, 2: 5}, 5),
        ({1: 9, 2: 5, 3: 7}, 7),
        ({1: 9, 2: 5, 4: 8}, 5),
        ({1: 3, 2: 3, 3: 3}, 3),
    ],
)
def test_the_largest_value_that_a_majority_has_reached(values: dict[int, int], reached: int) -> None:
    assert Voters((1, 2, 3)).reached_by_majority(values) == reached


@pytest.mark.parametrize(
    ("granted", "outcome"),
    [
        ({1: True}, None),
        ({1: True, 2: True}, True),
        ({1: True, 2: False}, None),
        ({1: True, 2: False, 3: False}, False),
        ({1: True, 2: False, 3: True}, True),
        ({1: True, 4: True, 5: True}, None),  # votes of those that have none do not count
    ],
)
def test_an_election_is_decided_by_a_majority_of_the_voters(granted: dict[int, bool], outcome: bool | None) -> None:
    assert Voters((1, 2, 3)).outcome(granted) is outcome


def test_voters_come_and_go_in_order() -> None:
    assert Voters((1, 3)).with_voter(2).ids == (1, 2, 3)
    assert Voters((1, 2, 3)).without_voter(2).ids == (1, 3)
    assert Voters((1, 2, 3)).others(1) == (2, 3)


def test_the_last_voters_record_counts_until_it_is_cut_off_the_log() -> None:
    """KIP-853."""
    history = VoterHistory(Voters((1, 2)))
    history.add(5, Voters((1, 2, 3)))
    history.add(9, Voters((1, 3)))

    assert history.latest == VotersAt(9, Voters((1, 3)), before=Voters((1, 2, 3)))
    history.truncate(10)
    assert history.latest.offset == 9
    history.truncate(9)
    assert history.latest == VotersAt(5, Voters((1, 2, 3)), before=Voters((1, 2)))
    history.truncate(0)
    assert history.latest == VotersAt(-1, Voters((1, 2)))


def test_a_snapshot_says_who_votes_and_nothing_before_it_does() -> None:
    history = VoterHistory(Voters((1,)))
    history.add(3, Voters((1, 2)))
    history.restart(100, Voters((2, 3)))

    history.truncate(100)

    assert history.latest == VotersAt(99, Voters((2, 3)))


def test_voters_records_come_in_the_order_of_the_log() -> None:
    history = VoterHistory(Voters((1,)))
    history.add(3, Voters((1, 2)))

    with pytest.raises(ValueError, match="after those at 3"):
        history.add(3, Voters((1, 2, 3)))
