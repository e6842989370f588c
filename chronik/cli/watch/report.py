"""One view printed, for `chronik watch --once`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from chronik.cli.watch import columns, words
from chronik.inspect.live_model import GroupRow, LiveView, Row, shown


def print_view(view: LiveView, console: Console) -> None:
    """As the live view shows it: nodes, totals, partitions, groups, what stalls."""
    rows = columns.ordered(shown(view.rows), columns.Sort())
    console.print(words.nodes_line(view))
    console.print(words.totals_line(view, len(rows), console.width))
    for part in (_partition_lines(rows, console.width), _group_lines(view.groups, console.width)):
        lines = list(part)
        if lines:
            console.print()
        for line in lines:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
    console.print()
    if view.verdicts:
        console.print(words.stalls_page(view.verdicts, view.is_tracing))
    else:
        console.print(words.stall_line(view, console.width))


def _partition_lines(rows: Sequence[Row], width: int) -> Iterator[Text]:
    if rows:
        sort = columns.Sort()
        laid = columns.laid_out(columns.widths_of(rows, sort), width, sort)
        yield _bold(columns.header(laid, sort))
        yield from (columns.line_of(row, laid) for row in rows)


def _group_lines(groups: Sequence[GroupRow], width: int) -> Iterator[Text]:
    if groups:
        widths = columns.group_widths(groups, width)
        yield _bold(columns.group_header(widths))
        yield from (columns.group_line(group, widths) for group in groups)


def _bold(line: Text) -> Text:
    line.stylize("bold")
    return line
