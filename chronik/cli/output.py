"""How commands speak: tables and JSON on standard output, progress and notes on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from chronik.client.words import byte_size as byte_size
from chronik.client.words import count as count
from chronik.client.words import counted as counted

if TYPE_CHECKING:
    from rich.console import Console

# Piped output is not cut: a table there is as wide as what it holds.
UNBOUNDED_COLUMNS = 10_000


def print_json(value: object) -> None:
    # At once, as rich prints tables: a command that goes on, such as `cluster start`, may have a script as its reader.
    print(json.dumps(value, ensure_ascii=False, indent=2), flush=True)


def print_line(text: str = "") -> None:
    print(text, flush=True)


def print_note(text: str) -> None:
    """A remark for a person; scripts that read standard output do not see it."""
    print(text, file=sys.stderr)


def is_confirmed(question: str) -> bool:
    """Whether a person says yes. Asked on standard error, for standard output may be read by a script; typer's own
    question puts a part of itself there whatever it is given."""
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table for people. A column of numbers is set to the right, None is shown as '-'."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    body = [list(row) for row in rows]
    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        header_style="bold",
    )
    for position, column in enumerate(columns):
        values = [row[position] for row in body if row[position] is not None]
        is_numeric = bool(values) and all(_is_number(value) for value in values)
        table.add_column(column, justify="right" if is_numeric else "left", overflow="fold")
    for row in body:
        table.add_row(*(Text(_cell(value)) for value in row))
    console().print(table)


@contextmanager
def progress(
    description: str, total: int | None, *, unit: str = "messages", is_wanted: bool = True
) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, which the caller moves by calling what it is given; nothing where there is no terminal."""
    if not (is_wanted and sys.stderr.isatty()):
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda step: bar.update(task, advance=step)


class TerminalReporter:
    """An `inspect.reporting.Reporter`: bars and notes on standard error."""

    def __init__(self, *, has_bars: bool) -> None:
        self._has_bars = has_bars

    def progress(self, description: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        return progress(description, total, unit=unit, is_wanted=self._has_bars)

    def note(self, text: str) -> None:
        print_note(text)


def _is_number(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and re.fullmatch(r"[+-]?[\d,]+", value) is not None)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(str(part) for part in value) or "-"
    return str(value)


def console() -> Console:
    """Standard output with colours where it is a terminal."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=UNBOUNDED_COLUMNS)
