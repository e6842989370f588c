"""The columns: their cells, their order, and which of them fit."""

from __future__ import annotations

import pytest

from chronik.cli.watch.columns import (
    BAD,
    BY_KEY,
    COLUMNS,
    NOTABLE,
    Sort,
    group_header,
    group_line,
    group_widths,
    header,
    laid_out,
    line_of,
    ordered,
    rate,
    widths_of,
)
from chronik.inspect.live_model import RateHistory, Row
from tests.unit.inspect.watched import copy, follower, group, led, snapshot, state


def rows_of(*partitions: object) -> tuple[Row, ...]:
    return RateHistory().take(snapshot(0.0, state(1, partitions))).rows  # type: ignore[arg-type]


def cell(key: str, row: Row) -> str:
    return BY_KEY[key].cell(row).plain


def test_the_replica_that_is_not_in_sync_is_marked() -> None:
    (row,) = rows_of(led(in_sync=(1, 2), followers=[follower(2), follower(3, lag_records=900, is_in_sync=False)]))

    assert cell("in_sync", row) == "1 2 !3"
    assert BAD in [str(span.style) for span in BY_KEY["in_sync"].cell(row).spans]
    assert BY_KEY["lag_records"].cell(row).style == BAD


def test_a_lag_that_lasts_is_coloured_and_a_moments_lag_is_not() -> None:
    lasting, moment = rows_of(
        led(partition=0, followers=[follower(2, lag_records=9, lag_ms=4000)]),
        led(partition=1, followers=[follower(2, lag_records=9, lag_ms=4)]),
    )

    assert BY_KEY["lag_ms"].cell(lasting).style == NOTABLE
    assert BY_KEY["lag_records"].cell(lasting).style == NOTABLE
    assert BY_KEY["lag_records"].cell(moment).style == ""


@pytest.mark.parametrize(("leader", "expected"), [(1, "1?"), (-1, "none")])
def test_a_leader_that_does_not_answer_is_not_shown_as_one_that_does(leader: int, expected: str) -> None:
    (row,) = RateHistory().take(snapshot(0.0, state(2, copies=[copy(leader=leader)]))).rows

    assert cell("leader", row) == expected
    assert (cell("in_sync", row), cell("gap", row), cell("watermark", row)) == ("?", "-", "90")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (0.0, "0"), (0.42, "0.4"), (9.97, "10"), (12_345.6, "12,346"), (2_500_000.0, "2.5M")],
)
def test_a_rate_is_short_and_never_rounds_something_to_nothing(value: float | None, expected: str) -> None:
    assert rate(value) == expected


def test_a_follower_that_never_had_everything_lags_without_end() -> None:
    (row,) = rows_of(led(followers=[follower(2, lag_records=3, lag_ms=-1)]))

    assert cell("lag_ms", row) == "∞"


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


def test_numbers_come_highest_first_and_names_from_a_to_z() -> None:
    rows = rows_of(led("b", watermark=5), led("a", 1, watermark=7), led("a", 0, watermark=7))

    assert names(ordered(rows, Sort())) == ["a:0", "a:1", "b:0"]
    assert names(ordered(rows, Sort("watermark"))) == ["a:0", "a:1", "b:0"]
    assert names(ordered(rows, Sort("watermark", is_reversed=True))) == ["b:0", "a:0", "a:1"]


def test_internal_topics_come_after_those_of_users() -> None:
    rows = rows_of(led("__offsets"), led("orders"))

    assert names(ordered(rows, Sort())) == ["orders:0", "__offsets:0"]
    assert names(ordered(rows, Sort("gap"))) == ["orders:0", "__offsets:0"]


def test_what_is_not_known_comes_last_in_both_directions() -> None:
    view = RateHistory().take(snapshot(0.0, state(1, [led("b")], copies=[copy("a", leader=2)])))

    assert names(ordered(view.rows, Sort("gap"))) == ["b:0", "a:0"]
    assert names(ordered(view.rows, Sort("gap", is_reversed=True))) == ["b:0", "a:0"]


def test_one_that_never_had_everything_is_the_worst() -> None:
    rows = rows_of(
        led("a", followers=[follower(2, lag_records=1, lag_ms=90_000)]),
        led("b", followers=[follower(2, lag_records=1, lag_ms=-1)]),
    )

    assert names(ordered(rows, Sort("lag_ms"))) == ["b:0", "a:0"]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.key)
def test_every_column_can_be_sorted_by_and_is_then_shown_however_narrow(column: object) -> None:
    sort = Sort(column.key)  # type: ignore[attr-defined]
    rows = rows_of(led("b"), led("a"))

    assert len(ordered(rows, sort)) == 2
    shown = [place.column.key for place in laid_out(widths_of(rows, sort), 40, sort)]
    assert sort.key in shown
    assert shown[:2] == ["topic", "partition"]


def test_all_columns_are_shown_where_there_is_room() -> None:
    rows = rows_of(led())

    assert [place.column for place in laid_out(widths_of(rows, Sort()), 200, Sort())] == list(COLUMNS)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = rows_of(led("a-topic-with-a-very-long-name-that-goes-on", watermark=123_456_789, next_offset=123_457_000))
    laid = laid_out(widths_of(rows, Sort()), width, Sort())

    assert laid[-1].end <= width
    assert header(laid, Sort()).cell_len == line_of(rows[0], laid).cell_len == laid[-1].end
    assert "…" in line_of(rows[0], laid).plain


def test_columns_do_not_shrink_when_their_content_does() -> None:
    wide = widths_of(rows_of(led(watermark=1_000_000_000)), Sort())

    assert widths_of(rows_of(led(watermark=1)), Sort(), wide)["watermark"] == len("1,000,000,000")


def test_the_header_shows_what_it_is_sorted_by() -> None:
    laid = laid_out(widths_of(rows_of(led()), Sort("gap")), 200, Sort("gap"))

    assert "gap▼" in header(laid, Sort("gap")).plain
    assert "gap▲" in header(laid, Sort("gap", is_reversed=True)).plain


def test_groups_have_their_state_members_and_lag_in_one_line_each() -> None:
    groups = (
        RateHistory().take(
            snapshot(0.0, state(1, [led()], groups=[group("billing", [("orders", 0, 40)]), group("x" * 99)]))
        )
    ).groups
    widths = group_widths(groups, 80)

    assert group_header(widths).plain.split() == ["group", "state", "members", "lag", "lags"]
    assert group_line(groups[0], widths).plain.split()[:4] == ["billing", "Stable", "1", "60"]
    assert {group_line(each, widths).cell_len for each in groups} == {80}
