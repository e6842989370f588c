"""What the page of the trace is made of."""

from __future__ import annotations

from chronik.console.pages.trace import refusals, step_times
from chronik.trace.events import AnyEvent, FetchAnswered, ProduceAnswered, RefusedEvent


def refused(at_us: int, client_id: str, error: str) -> RefusedEvent:
    return RefusedEvent(at_us, 1, "produce", client_id, "h", 1, 6, error, f"at {at_us}")


def answered(took_us: int) -> ProduceAnswered:
    return ProduceAnswered(1, 1, "orders", 0, "c", "h", 1, -1, 0, 1, 0, 1, (1,), took_us)


def fetched(took_us: int, *, has_waited: bool) -> FetchAnswered:
    return FetchAnswered(1, 1, "orders", 0, "c", "h", 1, None, 0, 1, 1, 500, False, 1, 1, 1, 1, 10, has_waited, took_us)


def test_refusals_are_counted_by_client_and_error_with_the_latest_reason() -> None:
    events: list[AnyEvent] = [
        refused(3, "shop", "NOT_LEADER"),
        refused(9, "shop", "NOT_LEADER"),
        refused(5, "till", "TOO_LARGE"),
        answered(1),
    ]

    found = refusals(events)

    assert [(row.client_id, row.error, row.count, row.reason) for row in found] == [
        ("shop", "NOT_LEADER", 2, "at 9"),
        ("till", "TOO_LARGE", 1, "at 5"),
    ]


def test_times_leave_out_fetches_that_waited_for_records() -> None:
    events: list[AnyEvent] = [answered(us) for us in range(1_000, 101_000, 1_000)]
    events += [fetched(2_000, has_waited=False), fetched(500_000, has_waited=True)]

    fetch, produce = step_times(events)

    assert (fetch.step, fetch.count, fetch.longest_ms) == ("fetch answered at once", 1, 2.0)
    assert (produce.count, produce.p50_ms, produce.p99_ms, produce.longest_ms) == (100, 51.0, 100.0, 100.0)
