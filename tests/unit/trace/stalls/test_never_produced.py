"""Never produced: only for those that expect something."""

from __future__ import annotations

from chronik.trace.events import AnyEvent, ProduceAppended
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.never_produced import find
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import HOST, TOPIC, at, history, refused, seen


def found(*events: AnyEvent, expected: int, now: float = 20) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits(), {TOPIC: expected}))


def sights(first: int, partition: int = 0, end: int = 40) -> list[AnyEvent]:
    return [seen(second, end, partition=partition) for second in range(first, 21)]


def test_a_topic_that_holds_less_and_gets_no_more_is_told() -> None:
    last = ProduceAppended(at(9), 1, TOPIC, 1, "writer", HOST, 5, 1, -1, -1, -1, 39, 40, 100, False, 1, 39)
    (verdict,) = found(*sights(5), *sights(5, 1), last, refused(9, 10), expected=100)

    assert verdict.cause is Cause.NEVER_PRODUCED
    assert verdict.topic == TOPIC
    assert "20 records of orders never came: it holds 80 of 100" in verdict.summary
    assert verdict.since_us == at(5)
    lines = "\n".join(verdict.evidence)
    assert "orders:0 40 and orders:1 40; together 80, not 100" in lines
    assert "the last batch came at" in lines
    assert "ERROR_10 once" in lines


def test_one_that_holds_all_or_more_is_well() -> None:
    assert found(*sights(5), *sights(5, 1), expected=80) == []
    assert found(*sights(5), *sights(5, 1), expected=79) == []


def test_one_that_still_gets_some_is_well() -> None:
    assert found(*sights(5), *(seen(second, second, partition=1) for second in range(5, 21)), expected=100) == []


def test_one_that_got_some_a_moment_ago_is_well() -> None:
    assert found(*sights(17), seen(10, 30), expected=100) == []


def test_one_with_a_partition_out_of_sight_is_not_judged() -> None:
    gone = [seen(second, 40, partition=1) for second in range(5)]
    assert found(*sights(5), *gone, expected=100) == []


def test_one_that_nobody_has_seen_is_not_judged() -> None:
    assert found(expected=100) == []
    assert found(*sights(5), expected=100, now=30) == []
