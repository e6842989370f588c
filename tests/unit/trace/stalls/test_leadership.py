"""Refused for leadership: on and on, and what the client was told."""

from __future__ import annotations

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.leadership import find
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import TOPIC, answered, at, committed, history, joined, refused, seen, stored, told

NOT_LEADER, NOT_COORDINATOR = 6, 16


def found(*events: AnyEvent, now: float = 20) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


def refusals(partition: int = 0, first: int = 10, last: int = 20, code: int = NOT_LEADER) -> list[AnyEvent]:
    return [refused(second, code, partition=partition, leader=2) for second in range(first, last + 1)]


def nodes() -> list[AnyEvent]:
    return [seen(20, 5, partition=number, node=number + 1) for number in range(3)]


def test_a_client_that_is_refused_on_and_on_is_told_with_what_it_knows() -> None:
    (verdict,) = found(*nodes(), told(9, (1,), (1, 1, 1)), *refusals(1), *refusals(2))

    assert verdict.cause is Cause.REFUSED_FOR_LEADERSHIP
    assert (verdict.client_id, verdict.topic, verdict.partition) == ("reader", TOPIC, 1)
    assert verdict.since_us == at(10)
    assert "22 times" in verdict.summary
    lines = "\n".join(verdict.evidence)
    assert "produce ERROR_6 22 times, by node 1 (22)" in lines
    assert "node 1 answered with brokers 1" in lines
    assert "alive are nodes 1, 2 and 3" in lines
    assert "0 by node 1, 1 by node 2, 2 by node 3" in lines
    assert "does not list node 2 and 3" in verdict.advice


def test_refusals_without_any_metadata_are_told_all_the_same() -> None:
    (verdict,) = found(*refusals())
    assert "ask for the metadata" in verdict.advice


def test_once_it_is_served_it_is_over() -> None:
    assert found(*refusals(last=19), stored(20)) == []
    assert found(*refusals(last=19), answered(20, 5, 9)) == []


def test_to_be_served_elsewhere_does_not_help() -> None:
    assert len(found(*refusals(last=19), stored(20, partition=1), stored(20, client="other"))) == 1


def test_refusals_that_last_a_moment_are_nothing() -> None:
    assert found(*refusals(first=17)) == []


def test_refusals_that_ended_are_nothing() -> None:
    assert found(*refusals(first=1, last=10)) == []


def test_refusals_now_and_then_are_nothing() -> None:
    assert found(*(refused(second, NOT_LEADER) for second in (2, 8, 14, 20))) == []


def test_refusals_for_other_reasons_are_not_meant() -> None:
    assert found(*refusals(code=19)) == []


def test_a_member_that_finds_no_coordinator_is_told() -> None:
    lost = [refused(each, NOT_COORDINATOR, api="heartbeat", topic=None, partition=-1) for each in range(10, 20)]
    (verdict,) = found(*lost)
    assert verdict.topic is None
    assert "refused for its coordinator" in verdict.summary
    assert found(*lost, joined(20)) == []
    assert found(*lost, committed(20, 5)) == []


# --- without a refusal


def test_a_client_that_keeps_asking_and_is_told_of_nobody_it_can_reach() -> None:
    (verdict,) = found(*nodes(), *(told(second, (1,), (1, 2, 3)) for second in range(10, 21)))
    assert "finds no leader of orders:1 and 2" in verdict.summary
    assert verdict.since_us == at(10)
    assert any("11 times" in line for line in verdict.evidence)
    assert "does not list node 2 and 3" in verdict.advice


def test_a_partition_without_a_leader_is_told() -> None:
    (verdict,) = found(*(told(second, (1, 2), (1, -1)) for second in range(10, 21)))
    assert verdict.partition == 1
    assert "1 by no node" in verdict.evidence[1]
    assert "start the nodes" in verdict.advice


def test_a_client_that_is_told_of_all_is_well() -> None:
    assert found(*(told(second, (1, 2, 3), (1, 2, 3)) for second in range(10, 21))) == []


def test_nodes_behind_one_address_may_all_be_called_the_same() -> None:
    assert found(*nodes(), *(told(second, (1,), (1, 1, 1)) for second in range(10, 21))) == []


def test_a_leader_that_is_missing_for_a_moment_is_nothing() -> None:
    before = [told(second, (1, 2), (1, 2)) for second in range(10, 17)]
    assert found(*before, *(told(second, (1,), (1, -1)) for second in range(17, 21))) == []


def test_different_partitions_in_turn_are_nothing() -> None:
    turns = [told(second, (1, 2), (-1, 2) if second % 2 else (1, -1)) for second in range(10, 21)]
    assert found(*turns) == []


def test_one_that_asked_once_and_never_again_is_not_known_to_be_lost() -> None:
    assert found(told(19, (1,), (2,))) == []
    assert found(*(told(second, (1,), (2,)) for second in range(10))) == []
