"""How far back each node's events reach, and until when something may be missing."""

from __future__ import annotations

from typing import Any

from chronik.inspect.trace_reach import NEVER, Remembered, blind_until
from chronik.trace.events import AnyEvent, EventsLost, ProduceAppended, TraceBegan, WatermarkMoved
from chronik.trace.inspections import EventsView, Traces

TOPIC, PARTITION, OFFSET = "orders", 1, 42
WRITTEN_US = 100
NOW_US = 1_000


def appended(is_duplicate: bool = False, at_us: int = WRITTEN_US, node: int = 1) -> ProduceAppended:
    return ProduceAppended(
        at_us, node, TOPIC, PARTITION, "shop", "10.0.0.1", 5, -1, 7, 0, 100, 40, 45, 500, is_duplicate, 3, 40
    )


def moved(node: int, before: int = 40) -> WatermarkMoved:
    return WatermarkMoved(WRITTEN_US + 10, node, TOPIC, PARTITION, before, 45, 45, is_leader=node == 1)


def seen(node: int, *events: AnyEvent, let_go: int = 0, is_traced: bool = True, **fields: Any) -> EventsView:
    traces = Traces(is_traced, (), added=len(events) + let_go, kept=len(events))
    told: dict[str, Any] = {"cursor": 1, "lost": 0, "began_us": 5} | fields
    return EventsView(node, NOW_US, traces, events, **told)


def remembered(*looks: EventsView, silent: dict[int, str] | None = None, oldest: Any = ()) -> Remembered:
    memory = Remembered(TOPIC)
    memory.take({look.node: look for look in looks}, silent or {})
    memory.end({look.node: look for look in oldest})
    return memory


def is_enough(memory: Remembered) -> bool:
    return memory.has_all_of(PARTITION, OFFSET)


def blind(memory: Remembered, stored: list[AnyEvent] | None = None) -> dict[int, int]:
    return blind_until(memory, stored, PARTITION, OFFSET)


LEADS = seen(1, TraceBegan(10, 1), appended())


def test_where_all_nodes_have_traced_since_before_the_record_their_memory_is_enough() -> None:
    memory = remembered(LEADS, seen(2, TraceBegan(11, 2)))

    assert is_enough(memory)
    assert blind(memory) == {}


def test_a_node_that_was_restarted_since_has_to_be_looked_up_in_the_trace_topic() -> None:
    memory = remembered(LEADS, seen(2, TraceBegan(300, 2)))
    stored: list[AnyEvent] = [TraceBegan(11, 2), moved(2)]

    assert not is_enough(memory)
    assert blind(memory) == {2: 300}
    assert blind(memory, stored) == {2: 300}  # what it did last before that may not be stored


def test_a_trace_that_was_off_for_a_while_has_a_hole_on_every_node() -> None:
    memory = remembered(
        seen(1, TraceBegan(10, 1), appended(), TraceBegan(300, 1)),
        seen(2, TraceBegan(10, 2), moved(2), TraceBegan(300, 2)),
    )

    assert not is_enough(memory)
    assert blind(memory, []) == {1: 300, 2: 300}


def test_what_a_node_has_let_go_of_the_trace_topic_has() -> None:
    wrapped = seen(2, moved(2, before=45), let_go=9)
    memory = remembered(LEADS, wrapped, oldest=[seen(2, TraceBegan(500, 2))])

    assert not is_enough(memory)
    assert blind(memory) == {2: 500}
    assert blind(memory, []) == {2: 500}  # nothing of it is stored either
    assert blind(memory, [moved(2)]) == {}
    assert blind(memory, [moved(2), EventsLost(250, 2, 9)]) == {2: 250}
    assert blind(memory, [moved(2), TraceBegan(200, 2)]) == {2: 200}
    assert is_enough(remembered(LEADS, wrapped, oldest=[seen(2, TraceBegan(90, 2))]))


def test_a_node_that_wrapped_and_does_not_tell_how_far_is_not_taken_to_have_all() -> None:
    memory = remembered(LEADS, seen(2, let_go=9))

    assert blind(memory) == {2: NEVER}


def test_events_that_were_let_go_while_they_were_read_are_missing() -> None:
    memory = Remembered(TOPIC)
    assert memory.take({1: seen(1, TraceBegan(10, 1), appended(), is_more=True)}, {})
    assert not memory.take({1: seen(1, cursor=9, lost=3)}, {})
    memory.end({})

    assert memory.cursors == {1: 9}
    assert blind(memory) == {1: NOW_US}


def test_a_node_that_is_started_anew_while_it_is_read_has_forgotten() -> None:
    memory = Remembered(TOPIC)
    memory.take({1: seen(1, TraceBegan(10, 1), appended(), is_more=True)}, {})
    memory.take({1: seen(1, began_us=600)}, {})
    memory.end({})

    assert blind(memory) == {1: NOW_US}


def test_a_silent_node_has_what_it_has_stored() -> None:
    memory = remembered(LEADS, silent={2: "connection refused"})

    assert not is_enough(memory)
    assert blind(memory) == {2: NEVER}
    assert blind(memory, [moved(2)]) == {}


def test_a_node_that_does_not_trace_the_topic_tells_nothing_of_it() -> None:
    memory = remembered(LEADS, seen(2, TraceBegan(11, 2), is_traced=False))

    assert not is_enough(memory)
    assert blind(memory, [moved(2)]) == {2: NOW_US}


def test_a_retry_is_not_what_brought_the_record() -> None:
    memory = remembered(seen(2, TraceBegan(10, 2), appended(is_duplicate=True, node=2)))

    assert not is_enough(memory)
    assert blind(memory, []) == {}  # the story says itself that it is not known when it was written
