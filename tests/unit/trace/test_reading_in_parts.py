"""The ring read in parts: whatever reads it must not hold up everybody else."""

from __future__ import annotations

import pytest

from chronik.trace.events import AnyEvent, GroupJoined
from chronik.trace.recorder import EVENTS_A_CHUNK, Recorder
from tests.unit.node.fakes import FakeClock


def event(number: int) -> AnyEvent:
    return GroupJoined(number, 1, "g", str(number), "app", "10.0.0.7")


def recorder(count: int) -> Recorder:
    made = Recorder(1, FakeClock(), 50_000)
    for number in range(count):
        made.add(event(number))
    return made


@pytest.mark.parametrize("enough", [1, 10, EVENTS_A_CHUNK, EVENTS_A_CHUNK + 1, 5_000])
@pytest.mark.parametrize("count", [0, 5, EVENTS_A_CHUNK, 3 * EVENTS_A_CHUNK + 7])
def test_parts_put_together_are_everything_once_and_in_order(count: int, enough: int) -> None:
    ring, found, cursor = recorder(count), list[AnyEvent](), 0

    while cursor < ring.added:
        read = ring.read(cursor, enough)
        assert 0 < len(read.events) < enough + EVENTS_A_CHUNK
        assert read.cursor == cursor + len(read.events)
        found += read.events
        cursor = read.cursor

    assert found == [event(number) for number in range(count)]


def test_what_comes_between_two_parts_is_read_too() -> None:
    ring = recorder(EVENTS_A_CHUNK + 5)
    first = ring.read(0, 1)
    ring.add(event(EVENTS_A_CHUNK + 5))

    second = ring.read(first.cursor)

    assert first.events + second.events == [event(number) for number in range(EVENTS_A_CHUNK + 6)]
