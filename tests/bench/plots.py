"""Pictures as SVG text: bars, curves and a scale of ratios. Pure functions; the page's style sheet has the colours.

A system is drawn in the class `s0`, `s1` ... by its place in the list of systems.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronik.pipeline.report.svg import round_up, svg, text

WIDTH = 720
LABEL_WIDTH = 250
VALUE_WIDTH = 90
BAR_HEIGHT = 14
GROUP_GAP = 12
MARGIN = 8
CURVE_HEIGHT = 240
AXIS_WIDTH = 64
AXIS_HEIGHT = 34
TICKS = 4
FEW_POINTS = 10

Point = tuple[float, float]


@dataclass(frozen=True)
class Standing:
    """How many times better than the peer something is (a cost is turned round), and where the goal is."""

    label: str
    times: float
    goal: float
    text: str
    is_met: bool


def bars(groups: Mapping[str, Mapping[str, float]], systems: Sequence[str], digits: int = 0) -> str:
    """A group of bars for each label, one bar a system, all on one scale from zero."""
    largest = max((value for group in groups.values() for value in group.values()), default=0.0) or 1.0
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts: list[str] = []
    top = MARGIN
    for label, group in groups.items():
        present = [system for system in systems if system in group]
        middle = top + BAR_HEIGHT * len(present) / 2 + 4
        parts.append(text(LABEL_WIDTH - 8, middle, label, "end"))
        for system in present:
            width = max(group[system] / largest * room, 1)
            place = f'x="{LABEL_WIDTH}" y="{top:.1f}" width="{width:.1f}" height="{BAR_HEIGHT - 2}"'
            parts.append(f'<rect class="s{systems.index(system)}" {place} rx="2"/>')
            parts.append(text(LABEL_WIDTH + width + 6, top + BAR_HEIGHT - 4, f"{group[system]:,.{digits}f}"))
            top += BAR_HEIGHT
        top += GROUP_GAP
    return svg(WIDTH, top, parts)


def curves(series: Mapping[str, Sequence[Point]], systems: Sequence[str], x_label: str, y_label: str) -> str:
    """A curve for each system, on scales from zero."""
    points = [point for each in series.values() for point in each]
    x_max = max((x for x, _ in points), default=1.0) or 1.0
    y_max = round_up(max((y for _, y in points), default=1.0) or 1.0)
    right, bottom = WIDTH - MARGIN, CURVE_HEIGHT - AXIS_HEIGHT

    def at(point: Point) -> str:
        x = AXIS_WIDTH + point[0] / x_max * (right - AXIS_WIDTH)
        return f"{x:.1f},{bottom - point[1] / y_max * (bottom - MARGIN):.1f}"

    parts = []
    for tick in range(TICKS + 1):
        y = bottom - tick / TICKS * (bottom - MARGIN)
        parts.append(f'<line class="grid" x1="{AXIS_WIDTH}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(AXIS_WIDTH - 6, y + 4, _short(y_max * tick / TICKS), "end"))
        x = AXIS_WIDTH + tick / TICKS * (right - AXIS_WIDTH)
        anchor = "end" if tick == TICKS else "middle"
        parts.append(text(x, bottom + 14, _short(x_max * tick / TICKS), anchor))
    parts.append(text((AXIS_WIDTH + right) / 2, CURVE_HEIGHT - 4, x_label, "middle"))
    parts.append(text(AXIS_WIDTH + 6, MARGIN + 10, y_label))
    for system, each in series.items():
        name = f"s{systems.index(system)}"
        parts.append(f'<polyline class="{name}" points="{" ".join(map(at, each))}"/>')
        if len(each) <= FEW_POINTS:
            places = (at(point).split(",") for point in each)
            parts += [f'<circle class="{name}" cx="{left}" cy="{top}" r="4"/>' for left, top in places]
    return svg(WIDTH, CURVE_HEIGHT, parts)


def standings(every: Sequence[Standing]) -> str:
    """A point for each on a scale of powers of two; the line at 1 is the peer, a tick is the goal."""
    logs = [math.log2(value) for each in every for value in (each.times, each.goal) if value > 0]
    low, high = math.floor(min([*logs, -1.0])), math.ceil(max([*logs, 1.0]))
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH

    def at(times: float) -> float:
        return LABEL_WIDTH + (math.log2(times) - low) / (high - low) * room

    row_height = BAR_HEIGHT + 8
    bottom = MARGIN + row_height * len(every)
    parts = []
    step = max(1, (high - low) // 8)
    for power in range(low, high + 1, step):
        x = at(2.0**power)
        kind = "peer" if power == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{MARGIN}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 14, f"{2.0**power:g} x", "middle"))
    for number, each in enumerate(every):
        y = MARGIN + row_height * number + row_height / 2
        parts.append(text(LABEL_WIDTH - 8, y + 4, each.label, "end"))
        goal = at(each.goal)
        parts.append(f'<line class="goal" x1="{goal:.1f}" x2="{goal:.1f}" y1="{y - 8:.1f}" y2="{y + 8:.1f}"/>')
        if each.times > 0:
            kind = "met" if each.is_met else "missed"
            parts.append(f'<circle class="{kind}" cx="{at(each.times):.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(text(WIDTH - VALUE_WIDTH + 12, y + 4, each.text))
    return svg(WIDTH, bottom + 22, parts)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
