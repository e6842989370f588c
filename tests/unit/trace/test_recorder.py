"""The ring: what is kept, what is let go, who is told, and what is traced at all."""

from __future__ import annotations

import pytest

from chronik.trace.events import AnyEvent, GroupJoined, ProduceAnswered, ProduceAppended, TraceBegan
from chronik.trace.lines import Produced, from_lines
from chronik.trace.recorder import EVENTS_A_CHUNK, TOPICS_MAX, Chunk, Recorder
from tests.unit.node.fakes import FakeClock


def event(number: int) -> AnyEvent:
    return GroupJoined(number, 1, "g", str(number), "app", "10.0.0.7")


def recorder(count: int = 0, *, ring_events: int = 50_000) -> Recorder:
    made = Recorder(1, FakeClock(), ring_events)
    for number in range(count):
        made.add(event(number))
    return made


@pytest.mark.parametrize("count", [0, 1, EVENTS_A_CHUNK - 1, EVENTS_A_CHUNK, 3 * EVENTS_A_CHUNK + 7])
def test_what_was_added_is_read_in_order_written_down_or_not(count: int) -> None:
    read = recorder(count).read()

    assert read.events == [event(number) for number in range(count)]
    assert (read.cursor, read.lost) == (count, 0)


@pytest.mark.parametrize("cursor", [1, 399, 400, 401, 900, 1000])
def test_a_cursor_goes_on_where_it_was(cursor: int) -> None:
    read = recorder(1000).read(cursor)

    assert read.events == [event(number) for number in range(cursor, 1000)]
    assert (read.cursor, read.lost) == (1000, 0)


def test_a_cursor_beyond_the_end_gets_nothing() -> None:
    assert recorder(3).read(99).events == []


def test_the_oldest_are_let_go_and_counted() -> None:
    ring = recorder(2000, ring_events=500)

    read = ring.read(100)

    assert 500 <= len(read.events) < 750 + 250
    assert read.events[-1] == event(1999)
    assert read.lost == 2000 - 100 - len(read.events)
    assert (ring.kept, ring.added) == (len(read.events), 2000)


def test_a_tiny_ring_keeps_the_last() -> None:
    assert recorder(5, ring_events=1).read().events == [event(4)]


def test_who_stores_is_given_every_chunk_once() -> None:
    ring, stored = recorder(), list[Chunk]()
    ring.store_with(stored.append)
    for number in range(EVENTS_A_CHUNK + 5):
        ring.add(event(number))
    ring.seal()
    ring.seal()

    assert [chunk.events for chunk in stored] == [EVENTS_A_CHUNK, 5]
    assert [chunk.first for chunk in stored] == [0, EVENTS_A_CHUNK]
    assert from_lines(stored[1].lines)[0] == event(EVENTS_A_CHUNK)


def batch(number: int) -> Produced:
    where = "orders", 0, "app", "10.0.0.7", 5
    return Produced(number, 1, *where, 1, -1, -1, -1, number, number + 1, 70, False, 0, number, number + 1, (1,), 0)


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("cursor", range(1, 7))
def test_a_batch_written_as_one_counts_as_the_two_events_that_are_read(cursor: int, is_sealed: bool) -> None:
    ring = recorder()
    for one in (event(0), batch(1), event(2), batch(3)):
        ring.put(one)
    if is_sealed:
        ring.seal()

    every = ring.read()
    assert [type(one) for one in every.events] == [
        GroupJoined,
        ProduceAppended,
        ProduceAnswered,
        GroupJoined,
        ProduceAppended,
        ProduceAnswered,
    ]
    assert (every.cursor, ring.added, ring.kept) == (6, 6, 6)
    assert ring.read(cursor).events == every.events[cursor:]
    assert ring.read(cursor).cursor == 6


def test_nothing_is_traced_at_first() -> None:
    assert recorder().steps is None


def test_a_topic_is_traced_alone_or_all_but_it() -> None:
    ring = recorder()

    ring.switch(is_all=False, exceptions=frozenset({"orders"}))
    assert ring.steps is not None
    assert (ring.steps.wants("orders"), ring.steps.wants("bills")) == (True, False)

    ring.switch(is_all=True, exceptions=frozenset({"orders"}))
    assert (ring.steps.wants("orders"), ring.steps.wants("bills")) == (False, True)


def test_names_of_topics_that_clients_make_up_do_not_pile_up() -> None:
    ring = recorder()
    ring.switch(is_all=True, exceptions=frozenset({"orders"}))
    assert ring.steps is not None

    for number in range(TOPICS_MAX + 5):
        assert ring.steps.wants(f"made-up-{number}")

    assert len(ring.wanted) <= TOPICS_MAX
    assert not ring.steps.wants("orders")


def test_our_own_topics_are_never_traced() -> None:
    ring = recorder()
    ring.switch(is_all=True, exceptions=frozenset())

    assert not ring.wants("__chronik_trace")
    assert not ring.wants("__consumer_offsets")


def test_a_trace_says_where_it_begins_each_time() -> None:
    ring = recorder()
    for is_all in (True, True, False, True):
        ring.switch(is_all=is_all, exceptions=frozenset())

    assert [type(one) for one in ring.read().events] == [TraceBegan, TraceBegan]


def test_switched_off_it_keeps_what_it_has() -> None:
    ring = recorder(3)
    ring.switch(is_all=True, exceptions=frozenset())
    ring.switch(is_all=False, exceptions=frozenset())

    assert ring.steps is None
    assert len(ring.read().events) == 4
