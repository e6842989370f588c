"""The columns of `chronik watch`: what stands in each, how it is sorted, and which of them fit a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from chronik.inspect.live_model import LAG_MS_NOTABLE, GroupRow, Row, sparkline

# Readable on dark and on light terminals.
GOOD, NOTABLE, BAD, QUIET, ACCENT = "#57ab5a", "#d29922", "bold #f0524f", "#808892", "#539bf5"
BARS_WIDTH = 8
TOPIC_WIDTH_MIN = 16
SEPARATOR = 2


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    rank: int
    """Where there is no room for all, the columns with the highest rank go first."""
    cell: Callable[[Row], Text]
    order: Callable[[Row], Any]
    """What rows are sorted by; None comes last, whatever the direction."""
    is_right: bool = True
    is_highest_first: bool = True
    """How one wants to see it when first sorted by it: the largest gap on top, topics from A to Z."""


@dataclass(frozen=True)
class Sort:
    key: str = "topic"
    is_reversed: bool = False
    """Against what the column does by itself."""


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Records a second. Below ten with a decimal: 0.4 is not nothing."""
    if value is None:
        return "-"
    if value >= 999_500:
        return f"{value / 1_000_000:,.1f}M"
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def _quiet_zero(text: str, value: float | None, style: str = "") -> Text:
    return Text(text, QUIET if not value else style)


def _leader(row: Row) -> Text:
    if row.leader is None:
        return Text("none", BAD)
    return Text(str(row.leader)) if row.is_heard else Text(f"{row.leader}?", BAD)


def replicas(row: Row) -> Text:
    """`1 2 !3`: the replica on node 3 is not in sync. Only the leader knows."""
    if not row.in_sync:
        return Text("?", QUIET)
    cells = [
        Text(f"!{node}", BAD) if node in row.out_of_sync else Text(str(node), GOOD if row.out_of_sync else "")
        for node in row.replicas
    ]
    return Text(" ").join(cells)


def _offset(pick: Callable[[Row], int | None]) -> Callable[[Row], Text]:
    def cell(row: Row) -> Text:
        return Text(number(pick(row)), "" if row.is_heard else QUIET)

    return cell


def _stable(row: Row) -> Text:
    is_behind = row.last_stable_offset != row.watermark  # an open transaction holds it back
    return Text(number(row.last_stable_offset), ACCENT if is_behind else QUIET)


def _trouble(row: Row) -> str:
    """How lag and gap are coloured: some is normal where something is produced."""
    if row.out_of_sync:
        return BAD
    return NOTABLE if row.is_troubled else ""


def _lag_ms(row: Row) -> Text:
    if row.lag_ms == -1:
        return Text("∞", _trouble(row))
    return Text(number(row.lag_ms), QUIET if (row.lag_ms or 0) < LAG_MS_NOTABLE else _trouble(row))


COLUMNS: tuple[Column, ...] = (
    Column(
        "topic",
        "topic",
        0,
        lambda row: Text(row.topic, QUIET if row.is_internal else ""),
        lambda row: _by_name(row),
        is_right=False,
        is_highest_first=False,
    ),
    Column(
        "partition", "p", 0, lambda row: Text(str(row.partition)), lambda row: row.partition, is_highest_first=False
    ),
    Column("leader", "lead", 1, _leader, lambda row: row.leader, is_highest_first=False),
    Column("log_start", "start", 13, _offset(lambda row: row.log_start), lambda row: row.log_start),
    Column("last_stable_offset", "stable", 14, _stable, lambda row: row.last_stable_offset),
    Column("watermark", "watermark", 3, _offset(lambda row: row.watermark), lambda row: row.watermark),
    Column("next_offset", "next", 10, _offset(lambda row: row.next_offset), lambda row: row.next_offset),
    Column("gap", "gap", 2, lambda row: _quiet_zero(number(row.gap), row.gap, _trouble(row)), lambda row: row.gap),
    Column(
        "in_sync", "in sync", 4, replicas, lambda row: len(row.out_of_sync) if row.in_sync else None, is_right=False
    ),
    Column(
        "lag_records",
        "lag",
        5,
        lambda row: _quiet_zero(number(row.lag_records), row.lag_records, _trouble(row)),
        lambda row: row.lag_records,
    ),
    Column("lag_ms", "lag ms", 9, _lag_ms, lambda row: _ever_first(row.lag_ms)),
    Column("in_per_s", "in/s", 6, lambda row: _quiet_zero(rate(row.in_per_s), row.in_per_s), lambda row: row.in_per_s),
    Column(
        "out_per_s", "out/s", 8, lambda row: _quiet_zero(rate(row.out_per_s), row.out_per_s), lambda row: row.out_per_s
    ),
    Column(
        "produced",
        "produced",
        7,
        lambda row: Text(
            sparkline(row.trend.produced, BARS_WIDTH), ACCENT if any(row.trend.produced[-BARS_WIDTH:]) else QUIET
        ),
        lambda row: sum(row.trend.produced),
        is_right=False,
    ),
    Column(
        "gaps",
        "gaps",
        11,
        lambda row: Text(
            sparkline(row.trend.gaps, BARS_WIDTH), NOTABLE if any(row.trend.gaps[-BARS_WIDTH:]) else QUIET
        ),
        lambda row: sum(row.trend.gaps),
        is_right=False,
    ),
)
BY_KEY = {column.key: column for column in COLUMNS}


def _ever_first(lag_ms: int | None) -> float | None:
    return float("inf") if lag_ms == -1 else lag_ms


def _by_name(row: Row) -> tuple[bool, str, int]:
    """Internal topics last: there are many of them, and they are seldom what one looks for."""
    return row.is_internal, row.topic, row.partition


def ordered(rows: Iterable[Row], sort: Sort) -> list[Row]:
    """By the column, then by name, so that rows do not dance."""
    column = BY_KEY[sort.key]
    by_name = sorted(rows, key=_by_name)
    known = [row for row in by_name if column.order(row) is not None]
    unknown = [row for row in by_name if column.order(row) is None]
    return sorted(known, key=column.order, reverse=column.is_highest_first != sort.is_reversed) + unknown


@dataclass(frozen=True)
class Laid:
    """A column with its place in a terminal."""

    column: Column
    start: int
    width: int

    @property
    def end(self) -> int:
        return self.start + self.width


def widths_of(rows: Sequence[Row], sort: Sort, before: Mapping[str, int] | None = None) -> dict[str, int]:
    """How wide each column must be for these rows. Never narrower than before: what moves is hard to read."""
    floor = before or {}
    return {column.key: max(_width(column, rows, sort), floor.get(column.key, 0)) for column in COLUMNS}


def laid_out(widths: Mapping[str, int], width: int, sort: Sort) -> list[Laid]:
    """The columns that fit. The one that rows are sorted by is always there; long names of topics get what is left."""
    topic_width = widths["topic"]
    widths = {**widths, "topic": min(topic_width, TOPIC_WIDTH_MIN)}
    chosen = {column.key for column in COLUMNS}
    for column in sorted(COLUMNS, key=lambda each: -each.rank):
        if sum(widths[key] + SEPARATOR for key in chosen) - SEPARATOR <= width:
            break
        if column.rank and column.key != sort.key:
            chosen.discard(column.key)
    left = width - sum(widths[key] + SEPARATOR for key in chosen) + SEPARATOR
    widths["topic"] += max(min(left, topic_width - widths["topic"]), 0)
    laid, start = [], 0
    for column in COLUMNS:
        if column.key in chosen:
            laid.append(Laid(column, start, widths[column.key]))
            start += widths[column.key] + SEPARATOR
    return laid


def _width(column: Column, rows: Sequence[Row], sort: Sort) -> int:
    arrow = 1 if column.key == sort.key else 0
    return max(len(column.title) + arrow, max((column.cell(row).cell_len for row in rows), default=0))


def header(laid: Sequence[Laid], sort: Sort) -> Text:
    line = Text()
    for place in laid:
        column = place.column
        is_sorted = column.key == sort.key
        arrow = ("▼" if column.is_highest_first != sort.is_reversed else "▲") if is_sorted else ""
        title = f"{column.title}{arrow}"
        padded = title.rjust(place.width) if column.is_right else title.ljust(place.width)
        line.append(" " * (place.start - line.cell_len))
        line.append(padded, "bold" if is_sorted else "")
    return line


def line_of(row: Row, laid: Sequence[Laid]) -> Text:
    line = Text()
    for place in laid:
        cell = place.column.cell(row)
        cell.truncate(place.width, overflow="ellipsis")
        line.append(" " * (place.start - line.cell_len))
        room = " " * (place.width - cell.cell_len)
        line.append_text(Text.assemble(room, cell) if place.column.is_right else Text.assemble(cell, room))
    return line


GROUP_TITLES = ("group", "state", "members", "lag", "lags")
STATE_WIDTH = len("PreparingRebalance")


def group_widths(groups: Sequence[GroupRow], width: int) -> list[int]:
    lag = max((len(number(group.lag)) for group in groups), default=0)
    rest = [STATE_WIDTH, len("members"), max(lag, 6), BARS_WIDTH]
    longest = max((Text(group.group).cell_len for group in groups), default=0)
    room = width - sum(rest) - SEPARATOR * len(rest)
    return [max(min(longest, room), len("group")), *rest]


def group_header(widths: Sequence[int]) -> Text:
    return _cells([Text(title) for title in GROUP_TITLES], widths)


def group_line(group: GroupRow, widths: Sequence[int]) -> Text:
    is_stable = group.state.lower() == "stable"
    return _cells(
        [
            Text(group.group),
            Text(group.state, GOOD if is_stable else NOTABLE if group.members else QUIET),
            _quiet_zero(str(group.members), group.members),
            _quiet_zero(number(group.lag), group.lag),
            Text(sparkline(group.lags, BARS_WIDTH), ACCENT if any(group.lags[-BARS_WIDTH:]) else QUIET),
        ],
        widths,
    )


def _cells(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        cell.truncate(width, overflow="ellipsis")
        is_number = place in (2, 3)
        cell.pad_left(width - cell.cell_len) if is_number else cell.pad_right(width - cell.cell_len)
    return Text(" " * SEPARATOR).join(cells)
