"""What a run writes down for an audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chronik.verify.books import Books, acknowledged, runs
from chronik.verify.errors import RunCannotStart
from chronik.verify.ledger import DeliveredMessages, Ledger, LedgerPlace, ReceivedRecord
from chronik.verify.messages import Messages


def a_ledger(*told: tuple[int, int] | None) -> Ledger:
    """Messages in the order of sending, each with where it was said to be; None was never acknowledged."""
    ledger = Ledger(len(told), lambda: 0.0)
    for number, place in enumerate(told):
        ledger.send(number, None)
        if place is not None:
            ledger.acknowledge(number, *place)
    return ledger


def test_what_follows_on_in_its_partition_is_one_run_whatever_came_between() -> None:
    ledger = a_ledger((0, 0), (1, 5), (0, 1), (1, 6), (0, 2))

    found = list(runs("t", acknowledged(ledger), "number"))

    assert found == [
        {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 3, "number": 0},
        {"topic": "t", "partition": 1, "start_offset": 5, "end_offset": 7, "number": 0},
    ]


def test_what_was_not_acknowledged_or_has_no_offset_is_not_in_the_ledger() -> None:
    ledger = a_ledger((0, 0), None, (0, 1), (0, -1), (0, 3))

    found = [(run["start_offset"], run["end_offset"]) for run in runs("t", acknowledged(ledger), "number")]

    assert found == [(0, 2), (3, 4)]


def test_the_order_goes_on_from_run_to_run() -> None:
    found = list(
        runs(
            "t",
            [LedgerPlace(0, 0), LedgerPlace(0, 2), LedgerPlace(0, 1), LedgerPlace(0, 1), LedgerPlace(0, 2)],
            "position",
        )
    )

    assert [(run["start_offset"], run["end_offset"], run["position"]) for run in found] == [
        (0, 1, 0),
        (2, 3, 1),
        (1, 2, 2),
        (1, 3, 3),
    ]


def test_both_books_are_written_as_json_lines(tmp_path: Path) -> None:
    delivered = DeliveredMessages(Messages("mark", 100), 2, lambda: 0.0)
    delivered.take([ReceivedRecord(b"", 0, 0), ReceivedRecord(b"", 0, 1)])
    books = Books(tmp_path / "ledger.jsonl", tmp_path / "received.jsonl")

    books.write("t", "p", a_ledger((0, 0), (0, 1)), delivered)

    place = {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 2}
    assert json.loads((tmp_path / "ledger.jsonl").read_text()) == {**place, "number": 0, "producer": "p"}
    assert json.loads((tmp_path / "received.jsonl").read_text()) == {**place, "position": 0}


def test_a_file_that_cannot_be_written_is_found_out_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunCannotStart, match="cannot be written"):
        Books(tmp_path / "nowhere" / "ledger.jsonl").check()
