"""A result as tables: for the terminal, and for docs/benchmarks.md.

A row of several lines has its figures side by side; a row of one line has them one below the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.results import ROOT, Measured, Result
from tests.bench.row import Figure, Row
from tests.bench.rows import ROWS

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN = "<!-- figures: written by `python -m tests.bench publish` -->"
END = "<!-- end of figures -->"
NOT_MET = "✗"
BUSY_LOAD = 0.7


@dataclass(frozen=True)
class Grid:
    """One row of the bench as cells of text."""

    title: str
    headings: list[str]
    lines: list[list[str]]


def grids(result: Result) -> Iterator[Grid]:
    for row in ROWS:
        measured = {(each.line, each.system, each.figure): each for each in result.measured if each.row == row.name}
        names = list(dict.fromkeys((line, system) for line, system, _ in measured))
        if len(names) == 1:
            yield _downwards(row, [each for each in result.measured if each.row == row.name])
        elif names:
            headings = ["", *(_heading(figure) for figure in row.figures)]
            lines = [
                [_line_name(result, *name), *(_cell(figure, measured[*name, figure.name]) for figure in row.figures)]
                for name in names
            ]
            yield Grid(row.title, headings, lines)


def _downwards(row: Row, measured: list[Measured]) -> Grid:
    return Grid(
        row.title,
        ["", ""],
        [[_heading(row.figure(each.figure)), _cell(row.figure(each.figure), each)] for each in measured],
    )


def _line_name(result: Result, line: str, system: str) -> str:
    """With the system's name only where there is more than one to tell apart."""
    return line if len({each.system for each in result.measured}) == 1 else f"{line} · {system}"


def _heading(figure: Figure) -> str:
    return f"{figure.label} (goal {figure.goal})" if figure.goal else figure.label


def _cell(figure: Figure, measured: Measured) -> str:
    """The median, how far off the rounds were (half of their spread), and a mark when the goal is not met."""
    spread = f"±{50 * measured.spread:.0f}%" if len(measured.values) > 1 else ""
    mark = f" {NOT_MET}" if measured.is_goal_met is False else ""
    return f"{measured.median:,.{figure.digits}f}{spread}{mark}"


def show(result: Result, console: Console) -> None:
    """All tables, the goals that were not met, and the circumstances."""
    for grid in grids(result):
        table = Table(show_header=any(grid.headings))
        console.print(Text(grid.title, style="bold"))
        for number, heading in enumerate(grid.headings):
            table.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
        for line in grid.lines:
            table.add_row(*(Text(cell, style="yellow" if cell.endswith(NOT_MET) else "") for cell in line))
        console.print(table)
    console.print(goals_met(result), soft_wrap=True)
    for failure in result.failures:
        console.print(Text(f"not measured: {failure}", style="red"), soft_wrap=True)
    console.print(circumstances(result), soft_wrap=True)


def markdown(result: Result) -> str:
    """The same for a page."""
    lines = [circumstances(result), "", goals_met(result), ""]
    for grid in grids(result):
        lines += [f"### {grid.title}", "", _pipes(grid.headings), _pipes(["---", *["---:"] * (len(grid.headings) - 1)])]
        lines += [*map(_pipes, grid.lines), ""]
    lines += [f"Not measured: {failure}\n" for failure in result.failures]
    return "\n".join(lines)


def _pipes(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def publish(result: Result, page: Path = PAGE) -> None:
    """Put the figures in their place on the page. Raises ValueError when the page has no such place."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures: '{BEGIN}' and '{END}'")
    page.write_text(f"{before}{BEGIN}\n\n{markdown(result)}\n{END}{after}", encoding="utf-8")


def goals_met(result: Result) -> str:
    with_goal = [each for each in result.measured if each.is_goal_met is not None]
    missed = [f"{each.row}, {each.line}" for each in with_goal if not each.is_goal_met]
    count = f"{len(with_goal) - len(missed)} of {len(with_goal)} goals met."
    return f"{count} Not met ({NOT_MET}): {'; '.join(missed)}." if missed else count


def circumstances(result: Result) -> str:
    machine = result.machine
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    busy = ", **so others had work to do meanwhile**" if machine["load_before"] > BUSY_LOAD else ""
    rounds = f"{result.rounds} round{'s' * (result.rounds > 1)}"
    return (
        f"Commit {result.commit}, {result.started}, {rounds} ({result.scale}), {result.seconds:,.0f} s. "
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, {machine['system']}, "
        f"{machine['filesystem']}; load before the run {machine['load_before']}{busy}. {versions}."
    )
