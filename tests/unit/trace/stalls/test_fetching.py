"""Fetch hangs: overdue, deaf to what comes, given up on, or answered with nothing."""

from __future__ import annotations

from chronik.trace.events import AnyEvent, EventsLost, TraceBegan
from chronik.trace.stalls.fetching import find
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import GROUP, HOST, answered, at, dropped, history, refused, seen, waits


def found(*events: AnyEvent, now: float = 20) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


def sights(watermark: int, to: int = 21, *, is_traced: bool = True) -> list[AnyEvent]:
    return [seen(second, watermark, is_traced=is_traced) for second in range(to)]


def test_a_fetch_that_waits_well_past_its_time_hangs() -> None:
    (verdict,) = found(*sights(100), waits(10, 100, 100))

    assert verdict.cause is Cause.FETCH_HANGS
    assert (verdict.client_id, verdict.host, verdict.group, verdict.node) == ("reader", HOST, GROUP, 1)
    assert verdict.since_us == at(10)
    assert any("max_wait_ms 500" in line for line in verdict.evidence)


def test_the_time_counts_from_when_it_was_asked() -> None:
    (verdict,) = found(*sights(100), waits(19, 100, 100, waited=9))
    assert verdict.since_us == at(10)


def test_a_fetch_within_its_time_does_not_hang() -> None:
    assert found(*sights(100), waits(10, 100, 100, max_wait_ms=30_000)) == []
    assert found(*sights(100), waits(17, 100, 100)) == []


def test_one_that_does_not_hear_of_what_came_hangs_even_within_its_time() -> None:
    (verdict,) = found(*sights(100, 8), *sights_after(8, 150), waits(5, 100, 100, max_wait_ms=60_000))
    assert any("had more at" in line for line in verdict.evidence)


def sights_after(second: int, watermark: int) -> list[AnyEvent]:
    return [seen(each, watermark) for each in range(second, 21)]


def test_one_that_wants_more_bytes_may_wait_its_time() -> None:
    assert found(*sights_after(0, 150), waits(5, 100, 100, max_wait_ms=60_000, min_bytes=1_000_000)) == []


def test_a_reader_of_committed_records_may_wait_for_the_end_of_a_transaction() -> None:
    sight = [seen(second, 150, stable=100) for second in range(21)]
    patient = waits(5, 100, 150, max_wait_ms=60_000, is_committed_only=True, stable=100)
    assert found(*sight, patient) == []


def test_an_answer_ends_it_whatever_partition_it_is_told_of() -> None:
    assert found(*sights(100), waits(10, 100, 100), answered(11, 5, 9, partition=1)) == []


def test_a_refusal_ends_it() -> None:
    assert found(*sights(100), waits(10, 100, 100), refused(11, 6, api="fetch")) == []


def test_a_client_that_hangs_up_in_time_ends_it() -> None:
    assert found(*sights(100), waits(10, 100, 100), dropped(10.3, 100, waited=0.3, connection=5)) == []


def test_the_next_fetch_on_the_connection_ends_it() -> None:
    assert found(*sights(100), waits(10, 100, 100), waits(19, 100, 100)) == []


def test_nothing_is_concluded_when_the_node_was_started_anew_or_lost_events() -> None:
    assert found(*sights(100), waits(10, 100, 100), TraceBegan(at(12), 1)) == []
    assert found(*sights(100), waits(10, 100, 100), EventsLost(at(12), 1, 9)) == []


def test_nothing_is_concluded_of_a_node_that_was_not_heard_of_since() -> None:
    assert found(*sights(100, 11), waits(10, 100, 100)) == []


def test_nothing_is_concluded_when_tracing_was_switched_off() -> None:
    off = [seen(second, 100, is_traced=False) for second in range(11, 21)]
    assert found(*sights(100, 11), waits(10, 100, 100), *off) == []


def test_the_partition_with_most_to_read_is_named() -> None:
    (verdict,) = found(*sights(100), waits(10, 100, 100), waits(10, 50, 90, partition=1))
    assert verdict.partition == 1
    assert any("2 partitions" in line for line in verdict.evidence)


# --- given up on


def test_a_client_that_gives_up_again_and_again_long_after_its_time_shows_it() -> None:
    gave_up = [dropped(4 * number, 100, waited=3, connection=number) for number in range(1, 5)]
    (verdict,) = found(*sights(100), *gave_up)
    assert verdict.cause is Cause.FETCH_HANGS
    assert "gave up 4 times" in verdict.summary
    assert verdict.since_us == at(1)


def test_giving_up_twice_is_no_pattern_unless_it_took_very_long() -> None:
    assert found(*sights(100), dropped(5, 1, waited=3, connection=1), dropped(9, 1, waited=3, connection=2)) == []
    (verdict,) = found(*sights(100), dropped(15, 100, waited=10, connection=1))
    assert "gave up once" in verdict.summary


def test_a_client_that_gave_up_long_ago_may_be_gone() -> None:
    assert found(*sights(100), dropped(9, 100, waited=8, connection=1)) == []


def test_a_client_that_is_answered_again_is_well() -> None:
    gave_up = [dropped(4 * number, 100, waited=3, connection=number) for number in range(1, 5)]
    assert found(*sights(150), *gave_up, answered(18, 100, 150)) == []


# --- empty answers


def test_empty_answers_to_a_client_that_reads_nothing_else_hang() -> None:
    (verdict,) = found(*(answered(second, 100, 100, 150) for second in range(10, 21)))
    assert verdict.cause is Cause.FETCH_HANGS
    assert any("11 answers" in line for line in verdict.evidence)
    assert any("below 150" in line for line in verdict.evidence)


def test_empty_answers_are_another_thing_when_other_partitions_are_read() -> None:
    empty = [answered(second, 100, 100, 150) for second in range(10, 21)]
    assert found(*empty, answered(15, 5, 9, partition=1)) == []


def test_empty_answers_at_the_end_are_as_it_should_be() -> None:
    assert found(*(answered(second, 100, 100, 100) for second in range(10, 21))) == []
