"""Runs cases in interleaved rounds, and gathers what they return."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.bench.client_link import Client, ClientFailed
from tests.bench.results import Measured, Result
from tests.bench.row import Bench, Lines, Row
from tests.bench.scale import Scale
from tests.bench.systems.system import ServerFailed, System

Announce = Callable[[str], None]


class Gathering:
    """Figures as they come in, by row, line, figure and system."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._measured: dict[tuple[str, str, str, str], Measured] = {}

    def take(self, row: Row, system: System, lines: Lines) -> None:
        for line, name, value in ((line, *item) for line, figures in lines.items() for item in figures.items()):
            place = (row.name, line, name, system.name)
            if place not in self._measured:
                self._measured[place] = Measured(*place)
                self._result.measured.append(self._measured[place])
            measured = self._measured[place]
            measured.values.append(value)
            measured.summarize()
            goal = row.figure(name).goal
            measured.is_goal_met = None if goal is None else goal.is_met(measured.median)


def run(
    result: Result,
    rows: Iterable[Row],
    systems: Iterable[System],
    scale: Scale,
    scratch: Path,
    announce: Announce,
) -> None:
    """Every case once against each system, then all again; the figures go to `result`."""
    steps = [(row, case, system) for row in rows for case in row.cases for system in systems]
    gathering = Gathering(result)
    started = time.monotonic()
    for round_number in range(1, result.rounds + 1):
        for row, case, system in steps:
            announce(f"round {round_number}, {row.name}: {case.name}")
            directory = scratch / "case"
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            # A client of its own for each case: one that a failed case left in the middle of a job is of no use.
            with Client() as client:
                try:
                    lines = case.measure(Bench(system, client, directory, scale))
                except (ClientFailed, ServerFailed) as problem:
                    result.failures.append(f"round {round_number}, {row.name}, {case.name}, {system.name}: {problem}")
                    continue
            gathering.take(row, system, lines)
    shutil.rmtree(scratch / "case", ignore_errors=True)
    result.seconds = round(time.monotonic() - started, 1)


def count_of_steps(rows: Iterable[Row], systems: Iterable[System], rounds: int) -> int:
    return rounds * sum(len(row.cases) for row in rows) * len(list(systems))
