"""Looks at fake nodes: what is kept of them, in which order and by whose clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from chronik.client.inspect_request import Inspections
from chronik.client.request import Address
from chronik.inspect.trace_history import TraceHistory
from chronik.trace.events import AnyEvent, EventsLost, PartitionSeen, TraceBegan
from chronik.trace.inspections import EventsView, StateView, Totals, Traces

START_US = 1_763_265_600_000_000
SECOND_US = 1_000_000
ADDRESSES = [("127.0.0.1", 9092)]
TOTALS = Totals(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass
class FakeNode:
    ring: list[AnyEvent] = field(default_factory=list)
    seen: list[PartitionSeen] = field(default_factory=list)
    lost: int = 0
    let_go: int = 0
    clock_off_us: int = 0
    began_us: int = 1
    is_silent: bool = False
    hides_events: bool = False
    is_cut_off: bool = False


@dataclass
class FakeNodes:
    """Answers as nodes do, three events at a time."""

    nodes: dict[int, FakeNode]
    now_us: int = START_US
    at_once: int = 3
    asked: list[dict[int, int]] = field(default_factory=list)

    def events(
        self,
        addresses: Sequence[Address],
        timeout_s: float,
        topics: Sequence[str] | None,
        cursors: Mapping[int, int] | None,
    ) -> Inspections[EventsView]:
        self.asked.append(dict(cursors or {}))
        answers = {}
        hiding = {number: "too late" for number, node in self.nodes.items() if node.hides_events}
        for number, node in self._speaking():
            if number in hiding:
                continue
            cursor = (cursors or {}).get(number, 0)
            cursor = 0 if cursor > len(node.ring) else cursor
            events = tuple(node.ring[cursor : cursor + self.at_once])
            end = cursor + len(events)
            now_us = self.now_us + node.clock_off_us
            traces = Traces(True, (), added=node.let_go + len(node.ring), kept=len(node.ring))
            answers[number] = EventsView(
                number, now_us, traces, events, end, node.lost, end < len(node.ring), node.began_us
            )
        return Inspections(answers, self._silent() | hiding)

    def states(
        self, addresses: Sequence[Address], timeout_s: float, topics: Sequence[str] | None, is_sure: bool = False
    ) -> Inspections[StateView]:
        answers = {
            number: StateView(
                number,
                self.now_us + node.clock_off_us,
                "1",
                True,
                Traces(True, ()),
                tuple(node.seen),
                (),
                (),
                TOTALS,
                is_current=is_sure and not node.is_cut_off,
            )
            for number, node in self._speaking()
        }
        return Inspections(answers, self._silent())

    def _speaking(self) -> list[tuple[int, FakeNode]]:
        return [(number, node) for number, node in self.nodes.items() if not node.is_silent]

    def _silent(self) -> dict[int, str]:
        return {number: "it hung up" for number, node in self.nodes.items() if node.is_silent}


def event(node: int, second: float) -> TraceBegan:
    return TraceBegan(START_US + int(second * SECOND_US), node)


def sight(node: int, second: float, topic: str = "orders", *, is_traced: bool = True) -> PartitionSeen:
    at_us = START_US + int(second * SECOND_US)
    return PartitionSeen(at_us, node, topic, 0, 1, 0, 5, 5, 5, 5, (1,), 1, (), 500, is_traced)


def gathering(nodes: FakeNodes, window_s: float = 120.0, events_max: int = 1_000) -> TraceHistory:
    return TraceHistory(ADDRESSES, None, window_s, events_max, nodes)


def test_events_of_all_nodes_come_in_the_order_of_their_times_with_the_state_last() -> None:
    one = FakeNode([event(1, -3), event(1, -1)], [sight(1, 0)])
    two = FakeNode([event(2, -2)])

    events, now_us = gathering(FakeNodes({1: one, 2: two})).look()

    assert events == [event(1, -3), event(2, -2), event(1, -1), sight(1, 0)]
    assert now_us == START_US


def test_a_node_that_tells_how_things_stand() -> None:
    """A node that tells how things stand and not what happened has a hole up to now that the next look fills."""
    one = FakeNode([event(1, -3)], [sight(1, 0)])
    gathered = gathering(nodes := FakeNodes({1: one, 2: FakeNode(is_silent=True)}))
    one.hides_events = True
    hidden, _ = gathered.look()
    assert (hidden, gathered.unheard, gathered.known_s) == ([sight(1, 0), EventsLost(START_US, 1, 0)], {1, 2}, None)

    one.hides_events = False
    nodes.nodes[2].is_silent = False
    events, _ = gathered.look()

    assert (events, gathered.unheard) == ([event(1, -3), sight(1, 0), sight(1, 0)], set())


def test_how_things_stand_is_not_believed_of_a_node_that_is_cut_off() -> None:
    """How things stand is not believed of a node that is cut off while another is not."""
    one, two = FakeNode(seen=[sight(1, 0)], is_cut_off=True), FakeNode(seen=[sight(2, 0)])
    gathered = gathering(FakeNodes({1: one, 2: two}))

    events, _ = gathered.look()
    assert (events, gathered.cut_off) == ([sight(2, 0)], [1])

    two.is_cut_off = True
    events, _ = gathered.look()
    assert (events, gathered.cut_off) == ([sight(2, 0), sight(1, 0), sight(2, 0)], [1, 2])


def test_a_node_with_more_to_tell_is_asked_until_it_has_told_all() -> None:
    ring: list[AnyEvent] = [event(1, -10 + number) for number in range(8)]
    nodes = FakeNodes({1: FakeNode(ring)})

    events, _ = gathering(nodes).look()

    assert events == ring
    assert [cursors.get(1, 0) for cursors in nodes.asked] == [0, 3, 6]


def test_the_next_look_goes_on_where_the_last_one_ended() -> None:
    node = FakeNode([event(1, -2)])
    nodes = FakeNodes({1: node})
    gathered = gathering(nodes)
    gathered.look()

    node.ring.append(event(1, -1))
    events, _ = gathered.look()

    assert events == [event(1, -2), event(1, -1)]


def test_what_is_older_than_the_window_is_let_go() -> None:
    node = FakeNode([event(1, -20), event(1, -5)])
    events, _ = gathering(FakeNodes({1: node}), window_s=10).look()
    assert events == [event(1, -5)]


def test_the_oldest_are_let_go_when_there_are_too_many_and_that_is_known() -> None:
    node = FakeNode([event(1, -20 + number) for number in range(10)])
    gathered = gathering(FakeNodes({1: node}), events_max=4)

    events, _ = gathered.look()

    assert events == [EventsLost(event(1, -14).at_us, 1, 6), *node.ring[-4:]]
    assert gathered.known_s == 14.0


def test_a_window_of_which_nothing_was_let_go_is_known_whole() -> None:
    gathered = gathering(FakeNodes({1: FakeNode([event(1, -20)])}))

    gathered.look()

    assert gathered.known_s is None


def test_a_node_that_let_go_of_events_before_the_first_look_is_known_from_the_first() -> None:
    """A node that let go of events before the first look is known from the first that it has."""
    node = FakeNode([event(1, -3), event(1, -2), event(1, -1)], let_go=7)
    gathered = gathering(FakeNodes({1: node}, at_once=1))

    events, _ = gathered.look()
    again, _ = gathered.look()

    assert events == again == [EventsLost(event(1, -3).at_us, 1, 0), *node.ring]
    assert (gathered.known_s, gathered.lost) == (3.0, 0)


def test_events_that_a_node_let_go_leave_a_hole_before_those_that_came() -> None:
    node = FakeNode([event(1, -2)], lost=7)
    gathered = gathering(FakeNodes({1: node}))

    events, _ = gathered.look()

    assert events == [EventsLost(event(1, -2).at_us, 1, 7), event(1, -2)]
    assert gathered.lost == 7


def test_a_node_that_was_started_anew_leaves_a_hole() -> None:
    node = FakeNode([event(1, -9), event(1, -8)])
    gathered = gathering(FakeNodes({1: node}))
    gathered.look()

    node.ring, node.began_us = [event(1, -1)], 2
    events, _ = gathered.look()
    again, _ = gathered.look()

    assert events == again == [event(1, -9), event(1, -8), EventsLost(event(1, -1).at_us, 1, 0), event(1, -1)]


def test_a_node_that_does_not_answer_is_named_and_goes_on_where_it_was() -> None:
    node = FakeNode([event(2, -9)])
    nodes = FakeNodes({1: FakeNode(), 2: node})
    gathered = gathering(nodes)
    gathered.look()

    node.is_silent = True
    gathered.look()
    assert gathered.silent == {2: "it hung up"}

    node.is_silent = False
    node.ring.append(event(2, -1))
    events, _ = gathered.look()

    assert gathered.silent == {}
    assert events == [event(2, -9), event(2, -1)]


def test_a_clock_that_is_far_off_is_put_right() -> None:
    off_us = 3600 * SECOND_US
    late = FakeNode([replace(event(2, -2), at_us=event(2, -2).at_us + off_us)], clock_off_us=off_us)
    nodes = FakeNodes({1: FakeNode([event(1, -3), event(1, -1)]), 2: late})

    events, now_us = gathering(nodes).look()

    assert [(each.node, each.at_us) for each in events] == [
        (1, event(1, -3).at_us),
        (2, event(2, -2).at_us),
        (1, event(1, -1).at_us),
    ]
    assert now_us == START_US


def test_a_clock_that_is_a_little_off_is_left_alone() -> None:
    nodes = FakeNodes({1: FakeNode(), 2: FakeNode([event(2, -2)], clock_off_us=200_000)})
    events, now_us = gathering(nodes).look()
    assert events == [event(2, -2)]
    assert now_us == START_US + 200_000


def test_topics_that_are_not_traced_are_named_but_not_our_own() -> None:
    seen = [sight(1, 0), sight(1, 0, "parcels", is_traced=False), sight(1, 0, "__trace", is_traced=False)]
    gathered = gathering(FakeNodes({1: FakeNode(seen=seen)}))

    gathered.look()

    assert gathered.untraced == ["parcels"]
    assert list(gathered.states) == [1]
