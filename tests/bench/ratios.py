"""Chronik's figures against the peer's: the ratio of each round, its median, and the goals it is held against."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from tests.bench.results import Measured, Ratio
from tests.bench.row import Row

OURS = "chronik"


def ratios(measured: Iterable[Measured], rows: Iterable[Row]) -> list[Ratio]:
    """One for each figure that both systems have, in the order they were measured."""
    known = {row.name: row for row in rows}
    every = list(measured)
    ours = {each.place: each for each in every if each.system == OURS}
    found = []
    for theirs in every:
        if theirs.system != OURS and theirs.place in ours and theirs.row in known:
            ratio = ratio_of(ours[theirs.place], theirs)
            if ratio is not None:
                hold_against_goals(ratio, known[theirs.row])
                found.append(ratio)
    return found


def ratio_of(ours: Measured, theirs: Measured) -> Ratio | None:
    """Round by round, since a slow minute touches both. None when no round has both, or theirs is zero in one."""
    their_values = theirs.by_round()
    pairs = [(value, their_values[number]) for number, value in ours.by_round().items() if number in their_values]
    if not pairs or not all(their_value for _, their_value in pairs):
        return None  # to leave out the rounds in which they took no time would be to choose the others
    values = [value / their_value for value, their_value in pairs]
    median = statistics.median(values)
    spread = (max(values) - min(values)) / median if median else 0.0
    return Ratio(ours.row, ours.line, ours.figure, theirs.system, values, median, spread)


def hold_against_goals(ratio: Ratio, row: Row) -> None:
    figure = row.figure(ratio.figure)
    ratio.is_goal_met = None if figure.ratio_goal is None else figure.ratio_goal.is_met(ratio.median)
    ratio.is_moonshot_met = None if figure.moonshot is None else figure.moonshot.is_met(ratio.median)
