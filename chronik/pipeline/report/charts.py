"""Pictures: curves over time with stalls marked behind them, bands of stalls, and shares. page.css has the colours."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape

from chronik.pipeline.report.svg import line, rect, round_up, short, svg, text

WIDTH, NARROW, HEIGHT = 540, 350, 220
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 12, 26
Y_TICKS, X_TICKS = 4, 3
BAND = 22
LABEL = 220
# Times between ticks, in seconds: round ones.
STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
DAY_S = 86400

Point = tuple[int, float | None]  # microseconds since 1970; None: not known


@dataclass(frozen=True)
class ChartSeries:
    """One curve. `kind` is its class in the style sheet: a colour and a dash, so that it can be recognised without
    colour."""

    name: str
    kind: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Mark:
    """A time that something stalled."""

    from_us: int
    to_us: int
    name: str


@dataclass(frozen=True)
class Chart:
    """Curves over one stretch of time."""

    title: str
    series: Sequence[ChartSeries]
    from_us: int
    to_us: int
    unit: str = ""
    marks: Sequence[Mark] = field(default_factory=tuple)
    is_log: bool = False  # for what spans powers of ten, such as times
    width: int = WIDTH


def curves(chart: Chart) -> str:
    """The picture, with what it shows at hand for a pointer."""
    low, high = _range(chart)
    x, y = _across(chart.from_us, chart.to_us, LEFT, chart.width - RIGHT), _up(low, high, chart.is_log)
    parts = [
        rect("stall", x(mark.from_us), TOP, x(mark.to_us) - x(mark.from_us), _FLOOR - TOP, mark.name)
        for mark in chart.marks
    ]
    parts += _grid(low, high, y, chart)
    parts += _time_axis(chart.from_us, chart.to_us, x, LEFT, _FLOOR)
    for each in chart.series:
        parts += _curve(each, x, y)
    held = escape(json.dumps(_held(chart), separators=(",", ":")))
    said = "; ".join(f"{each.name}: {_extremes(each, chart.unit)}" for each in chart.series)
    picture = svg(chart.width, HEIGHT, parts, f"{chart.title}. {said}")
    return f'<div class="chart" data-chart="{held}">{picture}<div class="tip" hidden></div></div>'


_FLOOR = HEIGHT - BOTTOM


def _held(chart: Chart) -> dict[str, object]:
    """What a pointer needs: where the picture lies in time, and the values."""
    return {
        "from": chart.from_us,
        "to": chart.to_us,
        "left": LEFT / chart.width,
        "right": (chart.width - RIGHT) / chart.width,
        "unit": chart.unit,
        "series": [
            {
                "name": each.name,
                "kind": each.kind,
                "at": [at for at, _ in each.points],
                "is": [value for _, value in each.points],
            }
            for each in chart.series
        ],
    }


class _Across:
    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self.low, self.size, self.left, self.room = low, (high - low) or 1, left, right - left

    def __call__(self, value: float) -> float:
        return self.left + min(max((value - self.low) / self.size, 0.0), 1.0) * self.room


def _across(low: float, high: float, left: float, right: float) -> _Across:
    return _Across(low, high, left, right)


class _Up:
    def __init__(self, low: float, high: float, is_log: bool) -> None:
        self.is_log = is_log
        self.low, self.high = (math.log10(low), math.log10(high)) if is_log else (low, high)

    def __call__(self, value: float) -> float:
        value = math.log10(max(value, 1e-9)) if self.is_log else value
        share = (value - self.low) / ((self.high - self.low) or 1)
        return _FLOOR - min(max(share, 0.0), 1.0) * (_FLOOR - TOP)


def _up(low: float, high: float, is_log: bool) -> _Up:
    return _Up(low, high, is_log)


def _range(chart: Chart) -> tuple[float, float]:
    values = [value for each in chart.series for _, value in each.points if value is not None]
    if chart.is_log:
        values = [value for value in values if value > 0] or [1.0]
        return 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values) * 1.0001))
    return 0.0, round_up(max(values, default=1.0) or 1.0)


def _grid(low: float, high: float, y: _Up, chart: Chart) -> Iterator[str]:
    if chart.is_log:
        powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
        ticks = [10.0**power for power in powers]
    else:
        ticks = [high * tick / Y_TICKS for tick in range(Y_TICKS + 1)]
    for tick in ticks:
        yield line("grid", LEFT, y(tick), chart.width - RIGHT, y(tick))
        yield text(LEFT - 6, y(tick) + 4, short(tick), "end")


def _time_axis(from_us: int, to_us: int, x: _Across, left: float, floor: float) -> Iterator[str]:
    length_s = max((to_us - from_us) / 1e6, 0.01)
    step_s = next(
        (step for step in STEPS_S if length_s / step <= X_TICKS + 1), DAY_S * math.ceil(length_s / DAY_S / X_TICKS)
    )
    step_us = round(step_s * 1e6)
    at_us = -(-from_us // step_us) * step_us
    while at_us <= to_us:
        yield line("tick", x(at_us), floor, x(at_us), floor + 4)
        yield text(x(at_us), floor + 17, clock(at_us, step_s), "middle")
        at_us += step_us


def clock(at_us: int, step_s: float = 1) -> str:
    """By UTC, as fine as the steps between two of them."""
    at = datetime.fromtimestamp(at_us / 1e6, UTC)
    if step_s >= DAY_S:
        return at.strftime("%d %b")
    if step_s >= 60:
        return at.strftime("%H:%M")
    if step_s >= 1:
        return at.strftime("%H:%M:%S")
    return at.strftime("%M:%S.%f")[:-4]


def _curve(series: ChartSeries, x: _Across, y: _Up) -> Iterator[str]:
    known = [(at, value) for at, value in series.points if value is not None]
    if len(known) == 1:
        at, value = known[0]
        yield f'<circle class="{series.kind}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="3"/>'
    elif known:
        places = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in known)
        yield f'<polyline class="{series.kind}" points="{places}"/>'


def _extremes(series: ChartSeries, unit: str) -> str:
    known = [value for _, value in series.points if value is not None]
    if not known:
        return "nothing known"
    return f"from {short(min(known))} to {short(max(known))}{f' {unit}' if unit else ''}, {short(known[-1])} at the end"


def bands(rows: Sequence[tuple[str, Sequence[Mark]]], from_us: int, to_us: int) -> str:
    """A row for each thing that stalled, with a bar from when to when."""
    width = 2 * WIDTH
    floor = TOP + BAND * len(rows)
    x = _across(from_us, to_us, LABEL, width - RIGHT)
    parts = []
    for number, (name, marks) in enumerate(rows):
        top = TOP + BAND * number
        parts.append(line("grid", LABEL, top + BAND, width - RIGHT, top + BAND))
        parts.append(text(LABEL - 8, top + BAND - 7, name, "end"))
        parts += [
            rect("band", x(each.from_us), top + 4, x(each.to_us) - x(each.from_us), BAND - 8, each.name)
            for each in marks
        ]
    parts += _time_axis(from_us, to_us, x, LABEL, floor)
    return svg(width, floor + BOTTOM, parts, "When it stalled: " + "; ".join(name for name, _ in rows))


def shares(rows: Sequence[tuple[str, float, str]], even: float) -> str:
    """A bar for each name, with words behind it, and a line where all would be the same."""
    width, room = 2 * WIDTH, 2 * WIDTH - LABEL - 200
    largest = max([even, *(value for _, value, _ in rows)]) or 1.0
    floor = TOP + BAND * len(rows)
    parts = []
    for number, (name, value, words) in enumerate(rows):
        top = TOP + BAND * number
        parts.append(text(LABEL - 8, top + BAND - 7, name, "end"))
        parts.append(rect("share", LABEL, top + 4, value / largest * room, BAND - 8))
        parts.append(text(LABEL + max(value, even) / largest * room + 8, top + BAND - 7, words))
    at = LABEL + even / largest * room
    parts.append(line("even", at, TOP, at, floor))
    parts.append(text(at, floor + 15, "an even share", "middle"))
    return svg(width, floor + BOTTOM, parts, "; ".join(f"{name} {words}" for name, _, words in rows))
