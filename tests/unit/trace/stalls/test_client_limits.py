"""Client limit or timeout: hanging up, asking again, asking for too much, dropping out."""

from __future__ import annotations

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.client_limits import find
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import (
    answered,
    at,
    committed,
    dropped,
    group,
    history,
    joined,
    left,
    member,
    seen,
    waits,
)


def found(*events: AnyEvent, now: float = 60) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


# --- hanging up


def hang_ups(first: int = 50, last: int = 60, offset: int = 7) -> list[AnyEvent]:
    return [dropped(second, offset, waited=0.3, connection=second) for second in range(first, last + 1)]


def test_a_client_that_hangs_up_before_every_answer_is_told() -> None:
    (verdict,) = found(*hang_ups())
    assert verdict.cause is Cause.CLIENT_LIMIT
    assert (verdict.client_id, verdict.partition) == ("reader", 0)
    assert verdict.since_us == at(49.7)
    assert "up to 500 ms (max_wait_ms), and waits itself for 0.3 s" in verdict.evidence[0]


def test_one_that_waits_longer_than_it_asked_for_is_not_to_blame() -> None:
    assert found(*(dropped(each, 7, waited=2, connection=each) for each in range(45, 61, 3))) == []


def test_one_that_is_answered_in_between_is_well() -> None:
    assert found(*hang_ups(), answered(58.5, 7, 7, connection=99)) == []


def test_one_that_goes_on_from_elsewhere_each_time_is_well() -> None:
    assert found(*(dropped(each, each, waited=0.3, connection=each) for each in range(50, 61))) == []


def test_programs_that_look_for_a_moment_are_well() -> None:
    assert found(*hang_ups(57)) == [], "three in a row, but within a moment"
    assert found(*(dropped(each, 7, waited=0.3, connection=each) for each in range(0, 61, 10))) == []


def test_one_that_ends_hangs_up() -> None:
    assert found(*hang_ups(), left(60)) == []


def test_that_somebody_else_ends_or_that_it_expires_says_nothing() -> None:
    assert len(found(*hang_ups(), left(55, client="other"), left(55, reason="expired"), left(40))) == 1


def test_what_is_over_is_over() -> None:
    assert found(*hang_ups(40, 50)) == []


def test_a_client_is_told_once_for_all_its_partitions() -> None:
    other = [dropped(second, 9, waited=0.3, connection=second, partition=1) for second in range(50, 61)]
    assert len(found(*hang_ups(), *other)) == 1


# --- asking for the same again


def test_one_that_is_given_the_same_again_and_again_is_told() -> None:
    (verdict,) = found(*(answered(second, 100, 150, connection=second) for second in range(50, 61)))
    assert "was given orders:0 from 100 on 11 times" in verdict.summary
    assert any("5,000 bytes" in line for line in verdict.evidence)


def test_one_that_reads_on_is_well() -> None:
    assert found(*(answered(second, second, second + 1, connection=second) for second in range(50, 61))) == []


def test_one_that_seeks_back_on_its_connection_does_so_on_purpose() -> None:
    assert found(*(answered(second, 100, 150) for second in range(50, 61))) == []


def test_a_job_that_reads_the_beginning_now_and_then_is_well() -> None:
    assert found(*(answered(second, 0, 150, connection=second) for second in range(0, 61, 10))) == []


# --- asking for too much


def test_one_that_lets_records_wait_for_more_of_them_is_told() -> None:
    wait = waits(60, 100, 150, waited=20, min_bytes=1_000_000, max_wait_ms=300_000)
    (verdict,) = found(wait)
    assert "it asked for at least 1,000,000 bytes" in verdict.summary
    assert verdict.since_us == at(40)


def test_one_that_waits_a_little_or_at_the_end_is_well() -> None:
    assert found(waits(60, 100, 150, waited=5, min_bytes=1_000_000, max_wait_ms=300_000)) == []
    assert found(waits(60, 150, 150, waited=20, min_bytes=1_000_000, max_wait_ms=300_000)) == []


# --- dropping out


def comings_and_goings(*times: int, reason: str = "expired") -> list[AnyEvent]:
    seen_at = [group(second, member(0), offsets={0: 100}) for second in range(61)]
    gone = [left(second, reason, member_id=f"m{second}") for second in times]
    back = [joined(second + 2, member_id=f"m{second}-again") for second in times]
    return [seen(60, 500), *seen_at, *gone, *back]


def test_one_that_expires_and_comes_back_again_and_again_is_told() -> None:
    moves = [committed(second, 100 + second) for second in range(0, 61, 5)]
    (verdict,) = found(*comings_and_goings(10, 25, 40), *moves)
    assert (verdict.group, verdict.client_id) == ("billing", "reader")
    assert "drops out of group 'billing' and comes back: 3 times" in verdict.summary
    assert "every 15.0 s" in verdict.summary


def test_twice_is_enough_when_the_group_gets_nowhere() -> None:
    assert len(found(*comings_and_goings(10, 25))) == 1
    assert found(*comings_and_goings(10, 25), *(committed(each, 100 + each) for each in range(0, 61, 5))) == []
    assert found(*comings_and_goings(10)) == []


def test_one_that_leaves_by_itself_is_told_only_when_the_group_gets_nowhere() -> None:
    (verdict,) = found(*comings_and_goings(10, 25, 40, reason="left"))
    assert any("has committed nothing since" in line for line in verdict.evidence)
    moves = [committed(second, 100 + second) for second in range(0, 61, 5)]
    assert found(*comings_and_goings(10, 25, 40, reason="left"), *moves) == []


def test_a_group_with_nothing_left_to_read_gets_where_it_wants() -> None:
    events = [event for event in comings_and_goings(10, 25, 40, reason="left") if event != seen(60, 500)]
    assert found(*events, seen(60, 100)) == []


def test_several_of_one_name_that_die_together_have_died_once() -> None:
    gone = [left(second, "expired", member_id=f"m{second}") for second in (10, 11, 12, 13)]
    back = [joined(second, member_id=f"n{second}") for second in (20, 21, 22, 23)]
    assert found(seen(60, 500), *(group(each, member(0)) for each in range(61)), *gone, *back) == []
