"""One deadline per key, the earliest at hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.core.machines.groups.timers import TimerKey, TimerKind, Timers

A, B = TimerKey(TimerKind.SESSION, "g", "a"), TimerKey(TimerKind.SESSION, "g", "b")


def test_nothing_is_due_before_its_time() -> None:
    timers = Timers()
    timers.set(A, 10)
    assert timers.due(9) == []
    assert timers.due(10) == [A]


def test_a_timer_set_again_counts_from_its_new_time_only() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.set(A, 20)
    assert timers.next_deadline_ms() == 20
    assert timers.due(15) == []


def test_what_is_longest_overdue_comes_first() -> None:
    timers = Timers()
    timers.set(A, 20)
    timers.set(B, 10)
    assert timers.due(30) == [B, A]


def test_what_is_due_is_due_for_one_owner_after_the_other() -> None:
    timers, other = Timers(), TimerKey(TimerKind.JOIN, "other")
    timers.set(A, 20)
    timers.set(other, 10)
    timers.set(B, 30)
    assert timers.due(30) == [other]
    timers.clear(other)
    assert timers.due(30) == [A, B]


def test_a_group_without_a_name_has_no_hand_in_the_timers_of_the_machine() -> None:
    timers, retention = Timers(), TimerKey(TimerKind.RETENTION)
    timers.set(retention, 10)
    timers.set(TimerKey(TimerKind.JOIN), 5)
    timers.clear_group("")
    assert timers.deadlines() == {retention: 10}


def test_all_timers_of_a_group_can_be_cleared_at_once() -> None:
    timers = Timers()
    timers.set(A, 20)
    timers.set(TimerKey(TimerKind.JOIN, "other"), 30)
    timers.clear_group("g")
    assert timers.next_deadline_ms() == 30
    assert A not in timers


def test_renewing_a_timer_for_ever_takes_no_more_memory() -> None:
    timers = Timers()
    timers.set(B, 1)
    for deadline_ms in range(10, 10_000):
        timers.set(A, deadline_ms)
    assert len(timers._heap) < 200


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 50) | st.none())))
def test_the_next_deadline_is_always_the_smallest_there_is(changes: list[tuple[str, int | None]]) -> None:
    timers, plain = Timers(), dict[str, int]()
    for name, deadline_ms in changes:
        key = TimerKey(TimerKind.SESSION, "g", name)
        if deadline_ms is None:
            timers.clear(key)
            plain.pop(name, None)
        else:
            timers.set(key, deadline_ms)
            plain[name] = deadline_ms
        assert timers.next_deadline_ms() == min(plain.values(), default=None)
        assert sorted(key.member_id for key in timers.due(25)) == sorted(n for n, d in plain.items() if d <= 25)
