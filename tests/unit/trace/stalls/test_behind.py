"""One partition behind: asked for and not given, or not asked for at all."""

from __future__ import annotations

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.behind import find
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import answered, at, committed, group, history, member, seen

NOW = 100
EMPTY = [answered(second, 100, 100, 150) for second in range(90, 101)]


def found(*events: AnyEvent) -> list[Verdict]:
    return list(find(history(*events, now=NOW), Limits()))


def reads(partition: int) -> list[AnyEvent]:
    return [answered(second, 10 * second - 10, 10 * second, partition=partition) for second in range(1, 101)]


def both_seen() -> list[AnyEvent]:
    return [seen(second, 10 * second, partition=number) for second in range(101) for number in (0, 1)]


def test_a_partition_that_is_asked_for_and_not_given_while_another_is() -> None:
    (verdict,) = found(*EMPTY, *reads(1))
    assert verdict.cause is Cause.PARTITION_BEHIND
    assert (verdict.partition, verdict.since_us, verdict.client_id) == (0, at(90), "reader")
    assert any("11 answers of node 1" in line for line in verdict.evidence)


def test_when_nothing_is_given_of_any_it_is_something_else() -> None:
    assert found(*EMPTY) == []


def test_a_partition_that_its_member_does_not_ask_for_while_it_asks_for_another() -> None:
    members = [group(second, member(0, 1)) for second in range(101)]
    (verdict,) = found(*both_seen(), *members, *reads(1), answered(40, 300, 400), committed(41, 400))

    assert (verdict.partition, verdict.since_us, verdict.group) == (0, at(40), "billing")
    assert "while it asks for orders:1" in verdict.summary
    assert any("given everything below 400; committed everything below 400" in line for line in verdict.evidence)


def test_one_that_is_behind_in_all_its_partitions_is_given_a_minute_for_each() -> None:
    members = [group(second, member(0, 1)) for second in range(101)]
    slowly = [answered(second, second, second + 1, 10 * second, partition=1) for second in range(1, 101)]

    assert found(*both_seen(), *members, *slowly, answered(50, 300, 400), committed(51, 400)) == []
    assert len(found(*both_seen(), *members, *slowly, answered(39, 300, 380), committed(40, 380))) == 1


def test_a_partition_of_which_it_still_has_records_may_wait_its_turn() -> None:
    members = [group(second, member(0, 1)) for second in range(101)]
    assert found(*both_seen(), *members, *reads(1), answered(20, 300, 400), committed(21, 399)) == []


def test_a_partition_that_it_was_never_seen_to_ask_for_is_given_a_minute() -> None:
    members = [group(second, member(0, 1), offsets={0: 100}) for second in range(101)]
    late = [group(second, member(0, 1), offsets={0: 100}) for second in range(60, 101)]
    assert len(found(*both_seen(), *members, *reads(1))) == 1
    assert found(*both_seen(), *late, *reads(1)) == []


def test_one_that_asks_for_all_only_when_it_has_nothing_left_is_well() -> None:
    members = [group(second, member(0, 1)) for second in range(101)]
    rarely = [answered(second, 5, 300, partition=1) for second in (41, 97)]
    assert found(*both_seen(), *members, *rarely, answered(40, 300, 400), committed(41, 400)) == []


def test_when_it_asks_for_none_it_is_something_else() -> None:
    members = [group(second, member(0, 1)) for second in range(101)]
    assert found(*both_seen(), *members, answered(40, 300, 400), committed(41, 400)) == []


def test_a_partition_is_not_told_twice() -> None:
    members = [group(second, member(0, 1), offsets={0: 100}) for second in range(101)]
    assert len(found(*both_seen(), *members, *EMPTY, *reads(1))) == 1
