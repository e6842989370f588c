"""One member's change to a KIP-848 group, step by step."""

from __future__ import annotations

from typing import Any

from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import NONE, ClassicMetadata, Current, Subscriber
from chronik.core.machines.groups.consumer_step import ConsumerStep, removal
from chronik.core.machines.groups.facts import (
    CurrentSet,
    GroupEpochSet,
    GroupTopicsSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerCleared,
)
from chronik.core.machines.groups.timers import TimerKind
from tests.unit.core.machines.groups.host import GROUP, NOW_MS, TOPICS, Host, consumer_beat, join, subscription

WANTS_ORDERS = Subscriber(topics=("orders",), rebalance_timeout_ms=60_000)


def step_of(host: Host, member_id: str) -> ConsumerStep:
    return ConsumerStep(host.consumer(), member_id, TOPICS, GroupConfig(), NOW_MS, [])


def kinds(facts: list[Any]) -> list[type[Any]]:
    return [type(fact) for fact in facts]


def group_of_one() -> Host:
    host = Host()
    host.send(consumer_beat("a", 0, instance_id="ia"))
    return host


def test_a_new_member_goes_through_all_four_steps() -> None:
    step = step_of(group_of_one(), "b")
    after = step.change(None, WANTS_ORDERS, Current(), NONE)
    assert (after.epoch, after.assigned) == (2, NONE)
    wanted = [SubscriberSet, GroupEpochSet, TargetSet, TargetSet, TargetEpochSet, CurrentSet, TimerCleared]
    assert kinds(step.facts) == wanted


def test_a_member_that_says_nothing_new_changes_nothing() -> None:
    host = group_of_one()
    step = step_of(host, "a")
    member, current = host.consumer().subscribers["a"], host.consumer().current("a")
    assert step.change(member, member, current, None) is current
    assert step.facts == []


def test_a_member_that_wants_other_topics_raises_the_epoch() -> None:
    host = group_of_one()
    step = step_of(host, "a")
    member, current = host.consumer().subscribers["a"], host.consumer().current("a")
    after = step.change(member, Subscriber(instance_id="ia", topics=("bills",)), current, NONE)
    assert after.epoch == 2
    assert [fact.topics for fact in step.facts if isinstance(fact, GroupTopicsSet)] == [{"bills": TOPICS["bills"]}]


def test_a_member_that_takes_over_gets_all_that_was_the_old_one_s() -> None:
    """A member that takes over gets all that was the old one s and raises no epoch."""
    host = group_of_one()
    step = step_of(host, "a2")
    before, current = step.take_over("a")
    assert (current.epoch, current.assigned) == (0, host.consumer().current("a").assigned)
    after = step.change(before, before, current, NONE)
    assert (after.epoch, after.assigned) == (1, current.assigned)
    assert not [fact for fact in step.facts if isinstance(fact, GroupEpochSet)]


def test_a_classic_member_has_two_timers_more_to_clear_when_it_goes() -> None:
    host = group_of_one()
    host.send(join("old", protocols=(("range", subscription("orders")),), topics=TOPICS))
    assert host.consumer().subscribers["old"].classic == ClassicMetadata(10_000, (("range", subscription("orders")),))
    cleared = {
        member_id: [fact.key.kind for fact in removal(host.consumer(), member_id) if isinstance(fact, TimerCleared)]
        for member_id in ("a", "old")
    }
    assert cleared["a"] == [TimerKind.SESSION, TimerKind.REVOKE]
    assert cleared["old"] == [TimerKind.SESSION, TimerKind.REVOKE, TimerKind.JOIN, TimerKind.SYNC]
    assert SubscriberSet(GROUP, "old", None) in removal(host.consumer(), "old")
