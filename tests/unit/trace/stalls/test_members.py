"""Members that do not ask for what is theirs, and how long they may."""

from __future__ import annotations

from chronik.trace.events import AnyEvent, EventsLost
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.members import MemberReading, readings
from tests.unit.trace.stalls.told import GROUP, TOPIC, answered, at, committed, group, history, member, seen, waits

NOW = 100


def reading(*events: AnyEvent, now: float = NOW) -> MemberReading:
    (only,) = readings(history(*events, now=now), Limits())
    return only


def unasked(*events: AnyEvent, now: float = NOW) -> list[int]:
    return [each.partition[1] for each in reading(*events, now=now).unasked]


def stable(*assigned: int, since: int = 0, to: int = NOW, offset: int | None = None) -> list[AnyEvent]:
    offsets = {} if offset is None else {0: offset}
    return [group(second, member(*assigned), offsets=offsets) for second in range(since, to + 1)]


def growing(to: int = NOW, *, is_traced: bool = True) -> list[AnyEvent]:
    """Partition 0, with ten records a second."""
    return [seen(second, 10 * second, is_traced=is_traced) for second in range(to + 1)]


def test_what_is_not_asked_for_is_told_with_all_that_is_known_of_it() -> None:
    (found,) = reading(*stable(0), *growing(), answered(50, 400, 500), committed(51, 450)).unasked
    assert found.name == f"{TOPIC}:0"
    assert (found.given, found.committed, found.watermark, found.leader) == (500, 450, 1_000, 1)
    assert (found.since_us, found.asked_us, found.until_us) == (at(50), at(50), at(NOW))


def test_its_work_is_done_when_all_that_it_was_given_is_committed() -> None:
    def is_done(*events: AnyEvent) -> bool:
        return reading(*stable(0, 1), *growing(), *events).is_done

    assert is_done(answered(50, 400, 500), answered(50, 0, 9, partition=1), committed(51, 500), committed(51, 9, 1))
    assert not is_done(answered(50, 400, 500), answered(50, 0, 9, partition=1), committed(51, 500), committed(51, 8, 1))
    assert not is_done(answered(50, 400, 500), answered(50, 0, 9, partition=1), committed(51, 500))
    assert not is_done(answered(50, 400, 500), committed(51, 500)), "what it has of the other is not known"


def test_its_commits_are_those_of_all_its_partitions() -> None:
    found = reading(*stable(0, 1), *growing(), committed(51, 500), committed(40, 9, 1), committed(45, 9, 2))
    assert found.commits_us == [at(40), at(51)]


def test_one_that_is_at_the_end_need_not_ask() -> None:
    still = [seen(second, 500) for second in range(NOW + 1)]
    assert unasked(*stable(0), *still, answered(50, 400, 500), committed(51, 500)) == []


def test_one_that_waits_for_an_answer_asks() -> None:
    patient = waits(60, 500, 500, max_wait_ms=300_000)
    events = [*stable(0), *growing(), answered(50, 400, 500), committed(51, 500), patient]
    assert reading(*events).asked == [(TOPIC, 0)]


def test_one_that_asks_from_another_host_asks() -> None:
    asks = [answered(second, 10 * second - 10, 10 * second, host="10.9.9.9") for second in range(10, 101)]
    assert reading(*stable(0), *growing(), committed(20, 100), *asks).asked == [(TOPIC, 0)]


def test_time_counts_only_from_when_it_was_his() -> None:
    (found,) = reading(*stable(0, since=85), *growing(), answered(50, 400, 500), committed(51, 500)).unasked
    assert found.since_us == at(85)


def test_time_counts_only_as_far_as_all_is_traced() -> None:
    asked: list[AnyEvent] = [answered(50, 400, 500), committed(51, 500)]
    assert unasked(*stable(0), *growing(is_traced=False), *asked) == []
    (found,) = reading(*stable(0), *growing(), *asked, EventsLost(at(90), 1, 5)).unasked
    assert found.since_us == at(91)


def test_a_partition_whose_leader_is_not_known_is_not_judged() -> None:
    assert unasked(*stable(0), *growing(90), answered(50, 400, 500), committed(51, 500)) == []
    assert unasked(*stable(0)) == []


def test_nobody_has_a_position_in_a_partition_that_he_never_read() -> None:
    assert unasked(*stable(0), *growing()) == []


def test_one_that_never_asks_although_its_group_has_a_position_is_found() -> None:
    assert unasked(*stable(0, offset=50), *growing()) == [0]


def test_groups_that_are_not_stable_or_not_seen_lately_are_not_judged() -> None:
    moving = [group(second, member(0), state="PreparingRebalance") for second in range(NOW + 1)]
    assert list(readings(history(*moving, now=NOW), Limits())) == []
    assert list(readings(history(*stable(0, to=90), now=NOW), Limits())) == []


def test_each_member_is_told_apart() -> None:
    both = [group(second, member(0), member(1, member_id="m2", client="other")) for second in range(NOW + 1)]
    found = list(readings(history(*both, now=NOW), Limits()))
    assert [(each.group, each.member.member_id) for each in found] == [(GROUP, "m1"), (GROUP, "m2")]
