"""More events than the rules can take: what says nothing new goes first, and what had to go is known to be gone."""

from __future__ import annotations

from chronik.trace.events import (
    AnyEvent,
    EventsLost,
    PartitionSeen,
    ProduceAnswered,
    ProduceAppended,
    Replicated,
    WatermarkMoved,
)
from chronik.trace.stalls import find
from chronik.trace.stalls.history import EventHistory
from chronik.trace.stalls.window import fit, known_since_us, thin
from chronik.trace.verdicts import Cause
from tests.unit.trace.stalls.told import CLIENT, HOST, TOPIC, answered, at, refused, seen

MANY = 2_000


def appended(second: float, offset: int, partition: int = 0) -> ProduceAppended:
    return ProduceAppended(
        at(second), 1, TOPIC, partition, CLIENT, HOST, 5, -1, 7, 0, 0, offset, offset + 1, 100, False, 1, offset
    )


def told_safe(second: float, offset: int) -> ProduceAnswered:
    return ProduceAnswered(
        at(second), 1, TOPIC, 0, CLIENT, HOST, 5, -1, offset, offset + 1, offset, offset + 1, (1,), 9
    )


def moved(second: float, watermark: int, node: int = 1) -> WatermarkMoved:
    return WatermarkMoved(at(second), node, TOPIC, 0, watermark - 1, watermark, watermark, is_leader=node == 1)


def busy(seconds: float, a_second: int = 400) -> list[AnyEvent]:
    """Partition 0 is well and loud."""
    events: list[AnyEvent] = []
    for number in range(int(seconds * a_second)):
        second = number / a_second
        events += [appended(second, number), moved(second, number + 1), moved(second, number, node=2)]
        events += [Replicated(at(second), 1, TOPIC, 0, 2, number, number + 1), told_safe(second, number)]
    return events


def test_few_events_are_all_given() -> None:
    events = busy(0.1)

    assert fit(events, len(events)) == events


def test_a_stall_of_one_partition_is_found_beneath_the_noise_of_another() -> None:
    stuck = [seen(second, 10, 20, partition=1) for second in range(11)]
    events = sorted([*busy(10), *stuck], key=lambda event: event.at_us)

    kept = fit(events, MANY)

    assert len(events) > 5 * MANY
    assert len(kept) <= MANY
    assert known_since_us(kept) is None
    assert [(found.cause, found.partition) for found in find(kept, at(10))] == [(Cause.WATERMARK_STANDS_STILL, 1)]


def test_the_rules_read_the_same_from_what_is_left() -> None:
    events = busy(3)

    whole, thinned = (
        EventHistory(events, at(3)).partitions[TOPIC, 0],
        EventHistory(thin(events), at(3)).partitions[TOPIC, 0],
    )

    assert thinned.appended == whole.appended
    assert thinned.moved[-1] == whole.moved[-1]
    assert EventHistory(thin(events), at(3)).heard_us == EventHistory(events, at(3)).heard_us


def test_that_a_client_was_served_between_two_refusals_is_not_forgotten() -> None:
    events: list[AnyEvent] = [refused(1, 6), appended(2, 0), refused(3, 6), appended(4, 1), appended(5, 2)]

    assert thin(events) == [refused(1, 6), appended(2, 0), refused(3, 6), appended(5, 2)]


def test_where_all_of_it_matters_the_oldest_go_and_leave_a_hole() -> None:
    """Where all of it matters the oldest go and leave a hole and how things stood stays."""
    fetches: list[AnyEvent] = [answered(number / 100, number, number + 1) for number in range(1_000)]
    states: list[AnyEvent] = [seen(second, 10, 20, partition=1) for second in range(11)]

    kept = fit(sorted([*fetches, *states], key=lambda event: event.at_us), 111)

    assert [event for event in kept if isinstance(event, PartitionSeen)] == states
    assert [event for event in kept if isinstance(event, EventsLost)] == [EventsLost(at(9), 1, 900)]
    assert known_since_us(kept) == at(9)
    assert len(kept) == 112


def test_states_alone_may_be_too_many() -> None:
    states: list[AnyEvent] = [seen(second, 10, 20) for second in range(100)]

    assert fit(states, 20) == states[-10:]
