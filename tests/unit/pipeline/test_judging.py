"""Stalls of a stored trace: the live rules, asked along its own time."""

from __future__ import annotations

import pytest

from chronik.pipeline.judging import (
    APART_US,
    EVERY_US,
    JudgedStall,
    Stalls,
    Window,
    known_events,
    ripe_until_us,
    stalls_between,
)
from chronik.trace.events import AnyEvent, EventsLost, PartitionSeen, TraceBegan
from chronik.trace.lines import to_lines
from chronik.trace.stalls import find
from chronik.trace.stalls.limits import EVENTS_MAX
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import at, seen
from tests.unit.trace.stalls.world import World, world

FOREVER_US = 1 << 60
SECOND_US = 1_000_000


def stuck_world(from_s: float = 10.0, until_s: float | None = None) -> World:
    """A follower stops after `from_s`, and goes on at `until_s`."""
    lived = world()
    lived.at(from_s, lambda: lived.frozen_followers.add(3))
    if until_s is not None:
        lived.at(until_s, lived.frozen_followers.clear)
    return lived


def judged(events: list[AnyEvent], from_us: int = 0, to_us: int = FOREVER_US) -> list[JudgedStall]:
    return stalls_between(sorted(events, key=lambda event: event.at_us), from_us, to_us)


def test_a_stall_has_the_words_of_the_live_finder() -> None:
    lived = stuck_world()
    lived.run(25)

    found = judged(lived.events)

    live = find(lived.events, lived.events[-1].at_us + 1)
    assert live
    assert {(stall.verdict.cause, stall.verdict.partition, stall.verdict.node) for stall in found} == {
        (verdict.cause, verdict.partition, verdict.node) for verdict in live
    }
    assert [stall.verdict.evidence for stall in found if stall.verdict.partition == 0] == [
        verdict.evidence for verdict in live if verdict.partition == 0
    ]


def test_a_stall_lasts_from_its_beginning_to_its_end() -> None:
    lived = stuck_world(10.0, 30.0)
    lived.run(60)

    found = judged(lived.events)

    assert {stall.verdict.cause for stall in found} == {Cause.WATERMARK_STANDS_STILL}
    for stall in found:
        assert at(10) <= stall.since_us <= at(12)
        assert at(15) <= stall.named_us <= at(18)
        assert at(29) <= stall.until_us <= at(31)
        assert stall.moments == (stall.until_us - stall.named_us) // SECOND_US + 1


def test_a_healthy_trace_has_no_stalls() -> None:
    lived = world()
    lived.run(40)

    assert judged(lived.events) == []


@pytest.mark.parametrize("cut_s", [13, 17, 20, 24])
def test_two_halves_of_a_trace_find_what_the_whole_does(cut_s: int) -> None:
    lived = stuck_world(10.0, 30.0)
    lived.run(40)
    cut_us = at(cut_s)

    first = judged([event for event in lived.events if event.at_us < cut_us], 0, cut_us)
    second = judged(lived.events, cut_us)

    whole = judged(lived.events)
    assert sum(stall.moments for stall in (*first, *second)) == sum(stall.moments for stall in whole)
    assert {stall.key for stall in (*first, *second)} == {stall.key for stall in whole}


def test_where_nobody_tells_anything_nothing_is_found() -> None:
    lived = stuck_world()
    lived.run(20)
    last_us = lived.events[-1].at_us
    much_later = TraceBegan(last_us + 3_600 * SECOND_US, 1)

    found = judged([*lived.events, much_later])

    assert found
    assert all(stall.until_us <= last_us + SECOND_US for stall in found)


def test_a_span_that_has_only_what_was_told_before_it_finds_nothing() -> None:
    lived = world()
    lived.at(10, lambda: setattr(lived, "hangs", True))
    lived.run(20)
    last_us = lived.events[-1].at_us

    assert judged(lived.events, 0)
    assert judged(lived.events, last_us + 60 * SECOND_US) == []


def test_what_comes_again_after_a_while_is_another_stall() -> None:
    stalls = Stalls()
    verdict = Verdict(Cause.FETCH_HANGS, "it hangs", ("seen",), "look", since_us=0, topic="orders", partition=0)

    began, over = stalls.see(EVERY_US, [verdict])
    assert (len(began), over) == (1, [])
    assert stalls.see(2 * EVERY_US, [verdict]) == ([], [])
    began, over = stalls.see(2 * EVERY_US + APART_US + 1, [verdict])

    assert [stall.until_us for stall in over] == [2 * EVERY_US]
    assert [stall.named_us for stall in began] == [2 * EVERY_US + APART_US + 1]


def test_a_window_is_as_large_as_a_live_one() -> None:
    window = Window(TraceBegan(number, 1) for number in range(EVENTS_MAX + 10))

    given = window.before(EVENTS_MAX + 5)

    assert given[0] == EventsLost(5, 1, 5)  # what had to go is known to be gone
    assert len(given) == 1 + EVENTS_MAX
    assert given[-1].at_us == EVENTS_MAX + 4


def test_a_window_that_is_forgotten_in_part_is_no_larger_than_a_live_one_either() -> None:
    window = Window(TraceBegan(number, 1) for number in range(EVENTS_MAX + 10))

    window.forget(EVENTS_MAX + 5)

    assert len(window.events) == 1 + EVENTS_MAX + 5
    assert window.events[0] == EventsLost(5, 1, 5)


def test_what_no_moment_needs_any_more_is_forgotten_and_what_is_to_come_is_not() -> None:
    window = Window([seen(second, 5) for second in range(0, 300, 10)])

    window.forget(at(200))

    assert [event.at_us for event in window.events] == [at(second) for second in range(80, 300, 10)]


def test_lines_of_a_later_schema_are_passed_over() -> None:
    lines = to_lines([seen(1, 5)]) + b'{"kind":"of_tomorrow","at_us":1,"node":1}\nnot json\n' + to_lines([seen(2, 5)])

    events = known_events(lines)

    assert [type(event) for event in events] == [PartitionSeen, PartitionSeen]


def test_of_a_line_that_tells_two_steps_the_first_is_put_where_it_belongs() -> None:
    window = Window([seen(1, 5), seen(2, 5)])

    window.put(seen(1.9, 5))
    window.put(seen(3, 5))

    assert [event.at_us for event in window.events] == [at(1), at(1.9), at(2), at(3)]


def test_a_stream_waits_for_the_slowest_node_that_is_heard_of() -> None:
    assert ripe_until_us([seen(9.0, 5, node=1), seen(10.0, 5, node=2), seen(2.0, 5, node=3)]) == at(9.0)
    assert ripe_until_us([]) == 0
