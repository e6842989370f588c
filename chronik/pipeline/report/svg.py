"""The small change of drawing: pictures as SVG text, words in them, and scales with round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape


def svg(width: float, height: float, parts: Iterable[str], label: str = "") -> str:
    """A picture that grows and shrinks with the page; `label` says what is to be seen to who cannot see it."""
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    named = f' aria-label="{escape(label)}"' if label else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"{named}>{"".join(parts)}</svg>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def rect(kind: str, x: float, y: float, width: float, height: float, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}"'
    return (
        f'<rect class="{kind}" {place} rx="2">{inside}</rect>' if inside else f'<rect class="{kind}" {place} rx="2"/>'
    )


def round_up(value: float) -> float:
    """To the next 1, 2, 4, 6 or 8 of its size, so that the ticks are round."""
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 4, 6, 8, 10) if value <= step * size)


def short(value: float) -> str:
    """As a number on an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            by = 1e3 if unit == "k" else size
            return f"{value / by:,.4g}{unit}"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
