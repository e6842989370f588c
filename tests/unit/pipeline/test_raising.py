"""A stream of the trace: what begins to stall and what is over is raised once, wherever micro-batches are cut."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.judging import Stalls, Window
from chronik.pipeline.transforms.raising import BEGAN, OVER, Raised, StreamState, kept, restored, step
from chronik.trace.events import AnyEvent
from tests.unit.pipeline.test_judging import judged, stuck_world


def raise_all(events: list[AnyEvent], batch: int, *, is_kept: bool = False) -> list[Raised]:
    """In micro-batches of so many events; with `is_kept` the state goes through its stored form each time."""
    seen = StreamState(0, Stalls(), Window())
    raised: list[Raised] = []
    for begin in range(0, len(events), batch):
        seen, more = step(seen, events[begin : begin + batch])
        raised += more
        if is_kept:
            seen = restored(kept(seen))
    return raised


@pytest.fixture(scope="module")
def events() -> list[AnyEvent]:
    lived = stuck_world(8.0, 20.0)
    lived.run(32)
    return lived.events


def test_a_stall_is_raised_when_it_begins_and_when_it_is_over(events: list[AnyEvent]) -> None:
    raised = raise_all(events, 200)

    by_kind = {kind: [each for each in raised if each.kind == kind] for kind in (BEGAN, OVER)}
    stalls = judged(events)
    assert len(by_kind[BEGAN]) == len(by_kind[OVER]) == len(stalls)
    assert {each.named_us for each in by_kind[BEGAN]} == {stall.named_us for stall in stalls}
    assert {(each.since_us, each.until_us) for each in by_kind[OVER]} == {
        (stall.since_us, stall.until_us) for stall in stalls
    }


@pytest.mark.parametrize("batch", [1, 37, 1000, 100_000])
def test_how_the_stream_is_cut_makes_no_difference(events: list[AnyEvent], batch: int) -> None:
    some = events[: len(events) if batch > 1 else 600]

    assert raise_all(some, batch) == raise_all(some, 200)


def test_the_state_survives_being_stored(events: list[AnyEvent]) -> None:
    assert raise_all(events, 200, is_kept=True) == raise_all(events, 200)


def test_nothing_is_raised_without_events() -> None:
    seen, raised = step(StreamState(0, Stalls(), Window()), [])

    assert (raised, seen.judged_us) == ([], 0)


def test_what_is_forgotten_was_judged(events: list[AnyEvent]) -> None:
    seen, _ = step(StreamState(0, Stalls(), Window()), events)

    assert seen.judged_us > 0
    assert all(event.at_us > seen.judged_us - 121_000_000 for event in seen.window.events)
