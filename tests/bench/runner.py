"""Runs cases in interleaved rounds against each system, and gathers what they return."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tests.bench.client_link import Client, ClientFailed
from tests.bench.ratios import OURS, ratios
from tests.bench.results import Measured, Result, Series
from tests.bench.row import Bench, Case, Lines, Row
from tests.bench.scale import Scale
from tests.bench.systems.system import ServerFailed, System

Announce = Callable[[str], None]
FAILURES = (ClientFailed, ServerFailed, subprocess.SubprocessError, psutil.Error, OSError)
"""What goes wrong in one case, and ends no other: a server, a client or a job that dies or takes for ever."""


class Gathering:
    """Figures as they come in, by row, line, figure and system."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._measured: dict[tuple[str, str, str, str], Measured] = {}

    def take(self, row: Row, system: System, lines: Lines, round_number: int) -> None:
        for line, figures in row.own(lines).items():
            for name, told in figures.items():
                for value in told if isinstance(told, Sequence) else (told,):
                    self._take(row, (row.name, line, name, system.name), round_number, value)

    def _take(self, row: Row, place: tuple[str, str, str, str], round_number: int, value: float) -> None:
        if place not in self._measured:
            self._measured[place] = Measured(*place, is_longest=row.figure(place[2]).is_longest)
            self._result.measured.append(self._measured[place])
        measured = self._measured[place]
        measured.take(round_number, value)
        goal = row.figure(measured.figure).goal if measured.system == OURS else None
        measured.is_goal_met = None if goal is None else goal.is_met(measured.median)

    def take_series(self, row: Row, system: System, series: dict[str, list[tuple[float, float]]]) -> None:
        known = {(each.row, each.line, each.system) for each in self._result.series}
        for line, points in series.items():
            if (row.name, line, system.name) not in known:
                self._result.series.append(Series(row.name, line, system.name, points))


Step = tuple[Case, System]


def steps_of(rows: Sequence[Row], systems: Sequence[System], scale: Scale, round_number: int = 1) -> list[Step]:
    """Each case against each system it is for. Who comes first changes from round to round."""
    has_peer = any(system.name != OURS for system in systems)
    order = systems if round_number % 2 else systems[::-1]
    cases = {id(case): case for row in rows for case in row.cases}.values()
    return [
        (case, system)
        for case in cases
        if (case.is_quick or not scale.is_quick)
        and (has_peer or not case.is_of_peer)
        and case.is_in_round(round_number)
        for system in order
        if system.name == OURS or (not case.is_ours_only and any(row.has_peer for row in rows_with(case, rows)))
    ]


def rows_with(case: Case, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if any(each is case for each in row.cases)]


def run(
    result: Result,
    rows: Sequence[Row],
    systems: Sequence[System],
    scale: Scale,
    scratch: Path,
    announce: Announce,
    limit_s: float = math.inf,
) -> None:
    """Every case once against each system, then all again; the figures go to `result`. A round that would not be over
    in time, if it took as long as the one before, is not begun."""
    gathering = Gathering(result)
    started = time.monotonic()
    took_s = 0.0
    for round_number in range(1, result.rounds + 1):
        began = time.monotonic()
        if round_number > 1 and began - started + took_s > limit_s:
            result.rounds = round_number - 1
            break
        for case, system in steps_of(rows, systems, scale, round_number):
            wanted = rows_with(case, rows)
            names = ", ".join(row.code or row.name for row in wanted)
            announce(f"round {round_number}, {names}: {case.name}, {system.name}")
            try:
                bench, lines = _measure(case, system, scale, scratch / "case")
            except FAILURES as problem:
                result.failures.append(f"round {round_number}, {names}, {case.name}, {system.name}: {problem}")
                continue
            for row in wanted:
                gathering.take(row, system, lines, round_number)
                gathering.take_series(row, system, bench.series)
            result.ratios = ratios(result.measured, rows)
            result.seconds = round(time.monotonic() - started, 1)
        took_s = time.monotonic() - began
    shutil.rmtree(scratch / "case", ignore_errors=True)
    result.seconds = round(time.monotonic() - started, 1)


def _measure(case: Case, system: System, scale: Scale, directory: Path) -> tuple[Bench, Lines]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    # A client of its own for each case: one that a failed case left in the middle of a job is of no use.
    with Client() as client:
        bench = Bench(system, client, directory, scale)
        return bench, case.measure(bench)


def count_of_steps(rows: Sequence[Row], systems: Sequence[System], scale: Scale, rounds: int) -> int:
    return sum(len(steps_of(rows, systems, scale, number)) for number in range(1, rounds + 1))
