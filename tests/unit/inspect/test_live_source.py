"""What passes from the nodes to the view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chronik.client.inspect_request import Inspections
from chronik.client.request import Address
from chronik.inspect.live_source import Given
from chronik.trace.events import AnyEvent, FetchAnswered
from chronik.trace.inspections import EventsView, StateView, Traces
from tests.unit.inspect.watched import NOW_US, state


class Nodes:
    """Tells the next of these lists of events at each look."""

    def __init__(self, *told: Sequence[AnyEvent]) -> None:
        self._left = list(told)

    def states(
        self, addresses: Sequence[Address], timeout_s: float, topics: Sequence[str] | None, is_sure: bool = False
    ) -> Inspections[StateView]:
        return Inspections({1: state(1)}, {})

    def events(
        self,
        addresses: Sequence[Address],
        timeout_s: float,
        topics: Sequence[str] | None,
        cursors: Mapping[int, int] | None,
    ) -> Inspections[EventsView]:
        return Inspections({1: EventsView(1, NOW_US, Traces(True, ()), tuple(self._left.pop(0)), 1, 0)}, {})


def fetched(partition: int, offset: int, to_offset: int) -> FetchAnswered:
    rest = (1 << 20, 1, 500, False, 1000, 1000, 1000, to_offset, 4096, False, 900)
    return FetchAnswered(NOW_US, 1, "orders", partition, "app", "10.0.0.9", 7, None, offset, *rest)


def test_records_given_to_consumers_are_counted_from_one_look_to_the_next() -> None:
    given = Given(
        Nodes(
            [fetched(0, 0, 500)],  # long ago
            [fetched(0, 500, 520), fetched(1, 0, 3), fetched(0, 520, 530)],
            [fetched(0, 530, 530)],
        )
    )

    def counted() -> dict[tuple[str, int], int]:
        given.events([], 1.0, None, None)
        return given.taken()

    assert counted() == {}
    assert counted() == {("orders", 0): 30, ("orders", 1): 3}
    assert counted() == {("orders", 0): 0}
