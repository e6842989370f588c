"""Partitions asked for and not given."""

from __future__ import annotations

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.history import TracedClient
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.starving import is_served_elsewhere, starving
from tests.unit.trace.stalls.told import CLIENT, HOST, TOPIC, answered, history, waits

EMPTY = [answered(second, 100, 100, 150) for second in range(10, 21)]


def found(*events: AnyEvent, now: float = 20) -> list[tuple[TracedClient, tuple[str, int], int]]:
    return [(who, what, len(run)) for who, what, run in starving(history(*events, now=now), Limits())]


def test_empty_answers_in_a_row_below_the_watermark_starve() -> None:
    assert found(*EMPTY) == [(TracedClient(CLIENT, HOST), (TOPIC, 0), 11)]


def test_a_record_in_between_begins_the_row_anew() -> None:
    assert found(*EMPTY, answered(17.5, 99, 100, 150)) == []


def test_another_offset_begins_the_row_anew() -> None:
    moved = [answered(second, 100 + second, 100 + second, 150) for second in range(10, 21)]
    assert found(*moved) == []


def test_a_few_empty_answers_or_short_ones_are_no_row() -> None:
    assert found(answered(12, 100, 100, 150), answered(20, 100, 100, 150)) == []
    assert found(*(answered(17 + number / 10, 100, 100, 150) for number in range(30))) == []


def test_one_that_does_not_ask_any_more_does_not_starve() -> None:
    assert found(*EMPTY, now=26) == []


def test_committed_records_alone_count_for_whom_reads_those() -> None:
    held = [answered(second, 100, 100, 150, is_committed_only=True, stable=100) for second in range(10, 21)]
    assert found(*held) == []


def test_served_elsewhere_is_who_gets_records_or_has_come_to_the_end() -> None:
    client, partition = TracedClient(CLIENT, HOST), (TOPIC, 0)

    def is_served(*others: AnyEvent) -> bool:
        return is_served_elsewhere(history(*EMPTY, *others, now=20), client, partition, EMPTY)

    assert is_served(answered(15, 5, 9, partition=1))
    assert is_served(answered(15, 9, 9, partition=1))
    assert is_served(waits(15, 9, 9, partition=1))
    assert not is_served(answered(15, 5, 5, 9, partition=1)), "it starves as well"
    assert not is_served(answered(5, 5, 9, partition=1)), "that was before"
    assert not is_served(answered(15, 5, 9, partition=1, client="another"))
    assert not is_served(answered(15, 99, 100, 150))
