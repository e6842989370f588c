"""The moves a rebalance is made of, and that they change nothing but the step."""

from __future__ import annotations

from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from chronik.core.machines.groups.classic_step import ClassicStep
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.facts import ClassicGroupChanged, ClassicGroupSaved, TimerCleared, TimerSet
from chronik.core.machines.groups.timers import TimerKey, TimerKind


def step_on(group: ClassicGroup, now_ms: int = 1_000, wall_ms: int | None = None) -> ClassicStep:
    return ClassicStep(group, GroupConfig(initial_rebalance_delay_ms=0), now_ms, wall_ms)


def member(member_id: str, join_ticket: int | None = None) -> ClassicMember:
    return ClassicMember(member_id, None, "c", "/h", 10_000, 60_000, (("range", b""),), join_ticket=join_ticket)


def test_a_step_without_moves_decides_nothing() -> None:
    decision = step_on(ClassicGroup("g")).decision()
    assert (decision.facts, decision.replies) == ([], [])


def test_the_group_a_step_starts_from_stays_as_it_was() -> None:
    group = ClassicGroup("g")
    step = step_on(group)
    step.add(member("a", 1), "consumer")
    step.rebalance()
    assert group == ClassicGroup("g")
    assert step.group.state is ClassicState.COMPLETING_REBALANCE


def test_only_a_group_at_rest_is_saved() -> None:
    step = step_on(ClassicGroup("g"))
    step.add(member("a", 1), "consumer")
    step.rebalance()
    assert [type(fact) for fact in step.decision().facts if fact.durable] == []
    step = step_on(step.group)
    step.assign({"a": b"x"})
    saved, *_ = step.decision().facts
    assert isinstance(saved, ClassicGroupSaved)
    assert saved.group.state is ClassicState.STABLE


def test_what_changes_after_saving_follows_as_a_passing_fact() -> None:
    step = step_on(ClassicGroup("g", ClassicState.PREPARING_REBALANCE))
    step.complete_join()
    step.add_pending("late", 10_000)
    saved, changed, *_ = step.decision().facts
    assert isinstance(saved, ClassicGroupSaved)
    assert isinstance(changed, ClassicGroupChanged)
    assert changed.group.pending_joins == ("late",)


def test_only_the_last_word_on_a_timer_counts() -> None:
    step = step_on(ClassicGroup("g"))
    step.set_timer(TimerKind.JOIN, 5)
    step.clear_timer(TimerKind.JOIN)
    step.set_timer(TimerKind.SYNC, 7)
    join, sync = TimerKey(TimerKind.JOIN, "g"), TimerKey(TimerKind.SYNC, "g")
    assert step.decision().facts == [TimerCleared(join), TimerSet(sync, 1_007)]


def test_since_when_a_group_is_as_it_is_outlives_this_process_and_timers_do_not() -> None:
    ahead = step_on(ClassicGroup("g"), now_ms=1_000, wall_ms=50_000)
    ahead.enter(ClassicState.STABLE)
    ahead.set_timer(TimerKind.SYNC, 7)
    assert ahead.group.since_ms == 50_000
    assert ahead.decision().facts[-1] == TimerSet(TimerKey(TimerKind.SYNC, "g"), 1_007)
    behind = step_on(ClassicGroup("g"), now_ms=50_000, wall_ms=1_000)
    behind.enter(ClassicState.STABLE)
    assert behind.group.since_ms == 50_000
