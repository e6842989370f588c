"""Members that do not ask for what is theirs, and how long they may."""

from __future__ import annotations

from chronik.trace.events import AnyEvent, EventsLost
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.members import Reading, readings
from tests.unit.trace.stalls.told import GROUP, TOPIC, answered, at, committed, group, history, member, seen, waits

NOW = 100


def reading(*events: AnyEvent, now: float = NOW) -> Reading:
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


def test_one_that_worked_off_all_it_was_given_should_ask_within_twenty_seconds() -> None:
    for now, found in ((69, []), (70, [0])):
        read: list[AnyEvent] = [answered(50, 400, 500), committed(51, 500)]
        assert unasked(*stable(0, to=now), *growing(now), *read, now=now) == found


def test_what_is_known_of_it_is_told() -> None:
    (found,) = reading(*stable(0), *growing(), answered(50, 400, 500), committed(51, 500)).unasked
    assert found.name == f"{TOPIC}:0"
    assert (found.given, found.committed, found.watermark, found.leader) == (500, 500, 1_000, 1)
    assert (found.since_us, found.asked_us) == (at(50), at(50))


def test_one_that_still_has_records_is_given_a_minute() -> None:
    for now, found in ((97, []), (98, [0])):
        read: list[AnyEvent] = [answered(35, 300, 350), committed(38, 340)]
        assert unasked(*stable(0, to=now), *growing(now), *read, now=now) == found


def test_one_that_used_to_commit_often_is_given_less() -> None:
    commits = [committed(40 + number / 2, 300 + number) for number in range(20)]
    assert unasked(*stable(0), *growing(), answered(40, 300, 400), *commits) == [0]


def test_one_that_commits_seldom_is_given_more() -> None:
    commits = [committed(10 * number, 10 * number) for number in range(1, 6)]
    assert unasked(*stable(0), *growing(), answered(40, 300, 400), *commits) == []


def test_a_commit_is_a_sign_of_life() -> None:
    commits = [committed(second, 300 + second) for second in range(40, 100, 5)]
    assert unasked(*stable(0), *growing(), answered(40, 300, 400), *commits) == []


def test_one_that_never_commits_is_not_judged() -> None:
    assert unasked(*stable(0), *growing(), answered(20, 100, 200)) == []


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


def test_nobody_is_judged_by_what_was_before_it_was_his() -> None:
    events = [*stable(0, since=85), *growing(), answered(50, 400, 500), committed(51, 500)]
    assert unasked(*events) == []


def test_nobody_is_judged_by_what_is_not_in_the_trace() -> None:
    asked: list[AnyEvent] = [answered(50, 400, 500), committed(51, 500)]
    assert unasked(*stable(0), *growing(is_traced=False), *asked) == []
    assert unasked(*stable(0), *growing(), *asked, EventsLost(at(90), 1, 5)) == []


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
