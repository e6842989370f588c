"""Whom a change of the metadata is still to reach."""

from __future__ import annotations

from chronik.core.raft.applied import AppliedOffsets


def test_a_node_that_was_never_heard_of_has_applied_nothing() -> None:
    assert AppliedOffsets().behind([2, 3], 1) == [2, 3]


def test_a_node_is_behind_until_it_has_applied_all_below_the_offset() -> None:
    applied = AppliedOffsets()
    applied.note(2, 10)
    applied.note(3, 9)
    assert applied.behind([2, 3], 10) == [3]
    applied.note(3, 11)
    assert applied.behind([2, 3], 10) == []


def test_only_the_nodes_that_are_asked_about_count() -> None:
    assert AppliedOffsets().behind([], 10) == []


def test_a_node_that_started_anew_has_applied_less_than_before() -> None:
    applied = AppliedOffsets()
    applied.note(2, 10)
    applied.note(2, -1)
    assert applied.behind([2], 10) == [2]


def test_a_node_that_did_not_come_in_time_is_not_waited_for_until_it_is_heard_of() -> None:
    applied = AppliedOffsets()
    applied.pass_over([2])
    assert applied.behind([2], 10) == []
    applied.note(2, 9)
    assert applied.behind([2], 10) == [2]
