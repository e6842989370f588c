"""Consumer stopped asking."""

from __future__ import annotations

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.stopped import find
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import answered, at, committed, group, history, member, seen

NOW = 100


def found(*events: AnyEvent, now: float = NOW) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


def growing(*partitions: int, to: int = NOW) -> list[AnyEvent]:
    return [seen(second, 10 * second, partition=number) for second in range(to + 1) for number in partitions]


def members(to: int = 100) -> list[AnyEvent]:
    return [group(second, member(0, 1)) for second in range(to + 1)]


def is_stopped(*events: AnyEvent, now: int = NOW) -> bool:
    """A member that has one partition."""
    alone = [group(second, member(0)) for second in range(now + 1)]
    return bool(found(*growing(0, to=now), *alone, *events, now=now))


READ: list[AnyEvent] = [
    answered(50, 400, 500),
    answered(45, 400, 450, partition=1),
    committed(51, 500),
    committed(51, 450, partition=1),
]


def test_a_member_that_asks_for_nothing_any_more_has_stopped() -> None:
    (verdict,) = found(*growing(0, 1), *members(), *READ)

    assert verdict.cause is Cause.CONSUMER_STOPPED
    assert (verdict.client_id, verdict.group, verdict.partition) == ("reader", "billing", 1)
    assert verdict.since_us == at(45)
    assert "more in 2 partitions" in verdict.summary
    assert any("orders:0: last asked for at" in line for line in verdict.evidence)
    assert any("member m1 is still in the group" in line for line in verdict.evidence)


def test_a_member_that_asks_for_one_of_its_partitions_has_not() -> None:
    asks = [answered(second, 5, 5, partition=1) for second in range(50, 101)]
    assert found(*growing(0, 1), *members(), *READ, *asks) == []


def test_one_that_left_has_not() -> None:
    empty = [group(second, state="Empty") for second in range(60, 101)]
    assert found(*growing(0, 1), *members(59), *READ, *empty) == []


def test_one_without_a_group_is_not_judged() -> None:
    assert found(*growing(0, 1), answered(50, 400, 500)) == []


# --- how long is too long


def test_one_that_worked_off_all_it_was_given_should_ask_within_twenty_seconds() -> None:
    read: list[AnyEvent] = [answered(50, 400, 500), committed(51, 500)]
    assert not is_stopped(*read, now=69)
    assert is_stopped(*read, now=70)


def test_one_that_still_has_records_is_given_a_minute_from_its_last_commit() -> None:
    read: list[AnyEvent] = [answered(35, 300, 350), committed(38, 340)]
    assert not is_stopped(*read, now=97)
    assert is_stopped(*read, now=98)


def test_one_that_still_has_records_of_another_partition_is_as_busy() -> None:
    read: list[AnyEvent] = [answered(50, 400, 500), committed(51, 500), answered(50, 0, 300, partition=1)]
    works = [committed(second, second, partition=1) for second in range(50, 100, 5)]
    assert found(*growing(0, 1), *members(), *read, *works) == []


def test_one_that_used_to_commit_often_is_given_less() -> None:
    commits = [committed(40 + number / 2, 300 + number) for number in range(20)]
    assert not is_stopped(answered(40, 300, 400), *commits, now=69)
    assert is_stopped(answered(40, 300, 400), *commits, now=70)


def test_one_that_commits_seldom_is_given_more() -> None:
    commits = [committed(10 * number, 10 * number) for number in range(1, 6)]
    assert not is_stopped(answered(40, 300, 400), *commits)


def test_a_commit_is_a_sign_of_life() -> None:
    commits = [committed(second, 300 + second) for second in range(40, 100, 5)]
    assert not is_stopped(answered(40, 300, 400), *commits)


def test_one_that_never_commits_is_not_judged() -> None:
    assert not is_stopped(answered(20, 100, 200))
