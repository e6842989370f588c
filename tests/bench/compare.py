"""Two results beside each other: what changed, and whether by more than the rounds of one run differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.results import Measured, Ratio, Result
from tests.bench.row import Figure, Row
from tests.bench.rows import ROWS

# A change within this much is noise, however close together the rounds were.
NOISE = 0.05
BAR_CELLS = 10
BAR_FULL = 1.0  # twice as much, or half of it, fills the bar


@dataclass(frozen=True)
class Change:
    """One figure, before and after."""

    row: Row
    line: str
    figure: Figure
    system: str
    before: float
    after: float
    noise: float
    """How much the rounds of either run differ, as a share of the figure."""

    @property
    def share(self) -> float:
        """0.1 is ten percent more."""
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def is_beyond_noise(self) -> bool:
        return abs(self.share) > self.noise

    @property
    def is_better(self) -> bool | None:
        """None when it is noise, or when neither way is better."""
        if not self.is_beyond_noise or self.figure.is_less_better is None:
            return None
        return (self.share < 0) == self.figure.is_less_better

    @property
    def bar(self) -> str:
        """A picture of it: to the left is less, to the right is more."""
        cells = min(round(abs(self.share) / BAR_FULL * BAR_CELLS), BAR_CELLS)
        left, right = ("█" * cells, "") if self.share < 0 else ("", "█" * cells)
        return f"{left:>{BAR_CELLS}}│{right:<{BAR_CELLS}}"


def changes(before: Result, after: Result) -> Iterator[Change]:
    """Of figures that both have: each system's own, and the ratios ("chronik/kafka")."""
    for row in ROWS:
        known = {figure.name for figure in row.figures}
        old = {_place(each): each for each in _every(before) if each.row == row.name and each.figure in known}
        for each in _every(after):
            earlier = old.get(_place(each)) if each.row == row.name else None
            if earlier is not None:
                noise = max(earlier.spread, each.spread, NOISE)
                figure = row.figure(each.figure)
                yield Change(row, each.line, figure, _whose(each), earlier.median, each.median, noise)


def _every(result: Result) -> list[Measured | Ratio]:
    return [*result.measured, *result.ratios]


def _whose(each: Measured | Ratio) -> str:
    return each.system if isinstance(each, Measured) else f"chronik/{each.peer}"


def _place(each: Measured | Ratio) -> tuple[str, str, str, str]:
    return each.row, each.line, each.figure, _whose(each)


def circumstances_differ(before: Result, after: Result) -> list[str]:
    """What makes the two hard to compare."""
    found = [
        f"{name}: {before.machine.get(name)} before, {after.machine.get(name)} after"
        for name in ("cpu", "cores", "filesystem")
        if before.machine.get(name) != after.machine.get(name)
    ]
    if before.scale != after.scale:
        found.append(f"scale: {before.scale} before, {after.scale} after")
    found += [
        f"{name}: {before.versions[name]} before, {after.versions[name]} after"
        for name in before.versions
        if name != "chronik" and name in after.versions and before.versions[name] != after.versions[name]
    ]
    return found


def as_json(before: Result, after: Result) -> list[dict[str, object]]:
    return [
        {
            "row": each.row.code or each.row.name,
            "line": each.line,
            "figure": each.figure.name,
            "system": each.system,
            "before": each.before,
            "after": each.after,
            "change": each.share,
            "noise": each.noise,
            "is_better": each.is_better,
        }
        for each in changes(before, after)
    ]


def show(before: Result, after: Result, console: Console) -> None:
    table = Table("", "", "", before.commit, after.commit, "change", "")
    styles = {True: "green", False: "red", None: ""}
    every = list(changes(before, after))
    for each in every:
        digits = 2 if "/" in each.system else each.figure.digits
        cells = [
            f"{each.row.code or each.row.name} {each.line}",
            each.figure.label,
            each.system,
            f"{each.before:,.{digits}f}",
            f"{each.after:,.{digits}f}",
            f"{each.share:+.0%}" if each.is_beyond_noise else f"({each.share:+.0%})",
            each.bar,
        ]
        table.add_row(*(Text(cell, style=styles[each.is_better]) for cell in cells))
    console.print(table)
    better = sum(each.is_better is True for each in every)
    worse = sum(each.is_better is False for each in every)
    console.print(f"{better} better, {worse} worse, of {len(every)}; in brackets: within the noise of the rounds")
    for difference in circumstances_differ(before, after):
        console.print(Text(f"not alike: {difference}", style="yellow"), soft_wrap=True)
