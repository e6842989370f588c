"""Tables of the page, and how figures and times are written in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], alarming: Sequence[str] = ()) -> str:
    """A column of figures is set to the right. Figures above zero in `alarming` columns are to be seen at once."""
    is_word = [any(isinstance(row[at], str) and not _is_figure(row[at]) for row in rows) for at in range(len(headings))]
    head = "".join(f'<th scope="col"{_word(is_word[at])}>{escape(name)}</th>' for at, name in enumerate(headings))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_kind(is_word[at], headings[at] in alarming and bool(value))}>{escape(cell(value))}</td>"
            for at, value in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _is_figure(text: str) -> bool:
    return text[:1].isdigit() or text in ("", "-")


def _word(is_word: bool) -> str:
    return ' class="word"' if is_word else ""


def _kind(is_word: bool, is_alarm: bool) -> str:
    return ' class="alarm"' if is_alarm else _word(is_word)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def time_of_day(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%H:%M:%S")


def milliseconds(percentiles_us: Sequence[int] | None, place: int) -> str:
    return f"{percentiles_us[place] / 1000:,.1f} ms" if percentiles_us else "-"
