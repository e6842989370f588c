"""A result as tables: for the terminal, for docs/benchmarks.md, and in short for the README.

A row that a peer was measured for has the systems side by side, with their ratio. Of the others, a row of several
lines has its figures side by side, and a row of one line has them one below the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.ratios import OURS
from tests.bench.results import ROOT, Measured, Ratio, Result
from tests.bench.row import Figure, Row
from tests.bench.rows import ROWS

PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
BEGIN = "<!-- figures: written by `chronik bench publish` -->"
END = "<!-- end of figures -->"
NOT_MET = "✗"
MOONSHOT = "★"
NONE = "-"
BUSY_LOAD = 0.7
# What the README shows: the rows that say most to someone who has never seen the project. All others are on the page.
HEADLINES = frozenset(
    {
        ("B1", "msg/s"),
        ("B3", "node CPU s/GB"),
        ("B8", "seconds"),
        ("B9", "idle, RSS, MB"),
        ("B11", "p50 s"),
        ("B12", "seconds"),
    }
)
SMALLEST_SHOWN = 0.005  # below it two decimals say 0.00, which is no result


@dataclass(frozen=True)
class Grid:
    """One row of the bench as cells of text."""

    title: str
    headings: list[str]
    lines: list[list[str]]
    words: int = 1
    """How many columns, from the left, hold words."""


def grids(result: Result) -> Iterator[Grid]:
    for row in ROWS:
        measured = [each for each in result.measured if each.row == row.name]
        lines = list(dict.fromkeys(each.line for each in measured))
        if len({each.system for each in measured}) > 1:
            yield _against(row, measured, [each for each in result.ratios if each.row == row.name])
        elif len(lines) == 1:
            yield _downwards(row, measured)
        elif lines:
            yield _sideways(row, measured, lines)


def _sideways(row: Row, measured: list[Measured], lines: list[str]) -> Grid:
    """A line of the table for each line of the row."""
    cells = {(each.line, each.figure): _cell(row.figure(each.figure), each) for each in measured}
    return Grid(
        row.heading,
        ["", *(_heading(figure) for figure in row.figures)],
        [[line, *(cells.get((line, figure.name), NONE) for figure in row.figures)] for line in lines],
    )


def _downwards(row: Row, measured: list[Measured]) -> Grid:
    """A line for each figure."""
    return Grid(
        row.heading,
        ["", ""],
        [[_heading(row.figure(each.figure)), _cell(row.figure(each.figure), each)] for each in measured],
    )


def _against(row: Row, measured: list[Measured], ratios: list[Ratio]) -> Grid:
    """A line for each figure of each line, the systems side by side, and their ratio."""
    systems = list(dict.fromkeys(each.system for each in sorted(measured, key=lambda each: each.system != OURS)))
    cells = {(*each.place, each.system): _cell(row.figure(each.figure), each) for each in measured}
    ratio_cells = {(each.row, each.line, each.figure): ratio_cell(each) for each in ratios}
    lines = []
    for place in dict.fromkeys(each.place for each in measured):
        figure = row.figure(place[2])
        lines.append(
            [
                place[1],
                _heading(figure),
                *(cells.get((*place, system), NONE) for system in systems),
                ratio_cells.get(place, NONE),
                str(figure.ratio_goal or ""),
            ]
        )
    return Grid(row.heading, ["", "", *systems, "ratio", "goal"], lines, words=2)


def _heading(figure: Figure) -> str:
    return f"{figure.label} (goal {figure.goal})" if figure.goal else figure.label


def _cell(figure: Figure, measured: Measured) -> str:
    """The median, how far off the rounds were (half of their spread), and a mark when the goal is not met."""
    mark = f" {NOT_MET}" if measured.is_goal_met is False else ""
    return f"{measured.median:,.{figure.digits}f}{_spread(measured)}{mark}"


def ratio_cell(ratio: Ratio) -> str:
    mark = f" {NOT_MET}" if ratio.is_goal_met is False else f" {MOONSHOT}" if ratio.is_moonshot_met else ""
    return f"{ratio.median:.2f}{_spread(ratio)}{mark}"


def _spread(of: Measured | Ratio) -> str:
    return f"±{50 * of.spread:.0f}%" if len(of.values) > 1 else ""


def summary(result: Result) -> Grid:
    """One line for each goal against the peer: the worst line counts, since the goal is for all of them."""
    lines = []
    for row in ROWS:
        for figure in row.figures:
            found = [each for each in result.ratios if (each.row, each.figure) == (row.name, figure.name)]
            if figure.ratio_goal is None or not found:
                continue
            by_size = sorted(found, key=lambda each: each.median)
            best, worst = (by_size[0], by_size[-1]) if figure.ratio_goal.is_upper else (by_size[-1], by_size[0])
            lines.append(
                [
                    f"{row.code} {row.name}",
                    figure.label,
                    worst.line,
                    ratio_cell(worst),
                    f"{best.median:.2f}",
                    str(figure.ratio_goal),
                    str(figure.moonshot or ""),
                ]
            )
    return Grid(
        "Chronik against Apache Kafka", ["", "", "worst line", "ratio", "best", "goal", "moonshot"], lines, words=3
    )


def show(result: Result, console: Console) -> None:
    """All tables, the goals that were not met, and the circumstances."""
    for grid in [*grids(result), *([summary(result)] if result.ratios else [])]:
        table = Table(show_header=any(grid.headings))
        console.print(Text(grid.title, style="bold"))
        for number, heading in enumerate(grid.headings):
            # Where words have two columns they may be wrapped; figures never: one that is cut short is a wrong one.
            is_whole = number == 0 if grid.words == 1 else number >= grid.words
            table.add_column(heading, justify="right" if number >= grid.words else "left", no_wrap=is_whole)
        for line in grid.lines:
            table.add_row(*(Text(cell, style="yellow" if cell.endswith(NOT_MET) else "") for cell in line))
        console.print(table)
    console.print(goals_met(result), soft_wrap=True)
    for failure in result.failures:
        console.print(Text(f"not measured: {failure}", style="red"), soft_wrap=True)
    for reason in result.left_out:
        console.print(Text(f"left out: {reason}", style="yellow"), soft_wrap=True)
    console.print(circumstances(result), soft_wrap=True)


def markdown(parts: Sequence[Result]) -> str:
    """The same for a page, of one run or of several that measured different rows."""
    result = together(parts)
    lines = [*("\n".join(map(circumstances, parts)).splitlines()), "", goals_met(result), ""]
    for grid in [*([summary(result)] if result.ratios else []), *grids(result)]:
        lines += [f"### {grid.title}", "", *_table(grid), ""]
    lines += [f"Not measured: {failure}\n" for failure in result.failures]
    lines += [f"Left out: {reason}\n" for reason in result.left_out]
    return "\n".join(lines)


def short_markdown(parts: Sequence[Result]) -> str:
    """The headlines, for the README: of each the range from the worst line to the best."""
    result = together(parts)
    failed = [f"Not measured, since something failed: {len(result.failures)} cases ([which](docs/benchmarks.md))."]
    lines = [*_table(_in_short(result)), "", goals_met(result), *(failed if result.failures else [])]
    return "\n".join([*lines, *map(circumstances, parts)])


def _in_short(result: Result) -> Grid:
    lines = []
    for row in (row for row in ROWS if row.code):
        for figure in row.figures:
            goal = figure.ratio_goal or (None if row.has_peer and row.name != "seed-run" else figure.goal)
            of: list[Ratio] | list[Measured] = result.ratios if figure.ratio_goal else result.measured
            found = [each for each in of if (each.row, each.figure) == (row.name, figure.name)]
            ours = [each.median for each in found if not isinstance(each, Measured) or each.system == OURS]
            if goal is None or not ours or (row.code, figure.label) not in HEADLINES:
                continue
            ends = sorted({_short(value): value for value in ours}.items(), key=lambda end: end[1])
            unit = " x Kafka" if figure.ratio_goal else ""
            mark = "" if all(map(goal.is_met, ours)) else f" {NOT_MET}"
            span = " to ".join(dict.fromkeys((ends[0][0], ends[-1][0])))
            lines.append([f"{row.code} {row.name}", figure.label, f"{span}{unit}{mark}", str(goal)])
    return Grid("In short", ["", "", "measured", "goal"], lines, words=2)


def _short(value: float) -> str:
    return f"{value:.2f}" if value >= SMALLEST_SHOWN else f"< {SMALLEST_SHOWN * 2:.2f}"


def together(parts: Sequence[Result]) -> Result:
    """Several runs as one; of a row that several have, the last counts."""
    last: dict[str, Result] = {}
    for part in parts:
        every: list[Measured | Ratio] = [*part.measured, *part.ratios]
        last |= {each.row: part for each in every}
    return replace(
        parts[-1],
        measured=[each for part in parts for each in part.measured if last[each.row] is part],
        ratios=[each for part in parts for each in part.ratios if last[each.row] is part],
        series=[each for part in parts for each in part.series if last.get(each.row) is part],
        failures=[each for part in parts for each in part.failures],
        left_out=[each for part in parts for each in part.left_out],
    )


def _table(grid: Grid) -> list[str]:
    return [_pipes(grid.headings), _rule(grid), *map(_pipes, grid.lines)]


def _rule(grid: Grid) -> str:
    return _pipes(["---" if number < grid.words else "---:" for number in range(len(grid.headings))])


def _pipes(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def publish(parts: Sequence[Result], page: Path = PAGE, readme: Path = README) -> None:
    """Put the figures in their places. Raises ValueError when a page has no such place."""
    for path, text in ((page, markdown(parts)), (readme, short_markdown(parts))):
        before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"{path} has no place for figures: '{BEGIN}' and '{END}'")
        path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def goals_met(result: Result) -> str:
    every: list[Measured | Ratio] = [*result.measured, *result.ratios]
    with_goal = [each for each in every if each.is_goal_met is not None]
    missed = list(dict.fromkeys(f"{each.row}, {each.line}" for each in with_goal if not each.is_goal_met))
    met = sum(bool(each.is_goal_met) for each in with_goal)
    count = f"{met} of {len(with_goal)} goals met."
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
