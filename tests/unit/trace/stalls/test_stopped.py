"""Consumer stopped asking."""

from __future__ import annotations

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.stopped import find
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import answered, at, committed, group, history, member, seen

NOW = 100


def found(*events: AnyEvent) -> list[Verdict]:
    return list(find(history(*events, now=NOW), Limits()))


def growing(*partitions: int) -> list[AnyEvent]:
    return [seen(second, 10 * second, partition=number) for second in range(101) for number in partitions]


def members(to: int = 100) -> list[AnyEvent]:
    return [group(second, member(0, 1)) for second in range(to + 1)]


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
