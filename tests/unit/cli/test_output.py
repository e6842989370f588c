"""Numbers, sizes and tables as people read them."""

from __future__ import annotations

import json

import pytest

from chronik.cli.output import byte_size, counted, print_json, print_table, progress


def test_a_count_goes_with_its_noun() -> None:
    assert [counted(number, "message") for number in (0, 1, 5000)] == ["0 messages", "1 message", "5,000 messages"]


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (36_500_000, "36.5 MB"), (2.5e9, "2.5 GB")]
)
def test_a_size_is_in_the_unit_that_keeps_it_short(size: float, expected: str) -> None:
    assert byte_size(size) == expected


def test_a_table_sets_numbers_right_and_shows_what_is_missing_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["topic", "lag"], [("orders", 12345), ("payments", None)])

    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].split() == ["topic", "lag"]
    assert lines[2:] == ["orders     12,345", "payments        -"]


def test_a_piped_table_is_not_cut_however_long_a_name_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["topic"], [("x" * 249,)])

    assert "x" * 249 in capsys.readouterr().out


def test_brackets_in_a_cell_are_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["value"], [("[bold]x",)])

    assert "[bold]x" in capsys.readouterr().out


def test_json_goes_to_standard_output_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"topic": "Größe"})

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"topic": "Größe"}
    assert "Größe" in printed


def test_progress_is_silent_when_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("produced", 10) as advance:
        advance(10)

    assert capsys.readouterr() == ("", "")
