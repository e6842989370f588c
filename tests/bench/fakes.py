"""Results, rows and systems for tests that start nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.bench.results import Measured, Result
from tests.bench.systems.system import Cluster, Server


class FakeSystem:
    """A system by its name alone: cases that use it never start it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = "1"

    def server(self, directory: Path, settings: Mapping[str, str]) -> Server:
        raise NotImplementedError

    def cluster(self, directory: Path, settings: Mapping[str, str]) -> Cluster:
        raise NotImplementedError


def an_empty_result(rounds: int = 1, commit: str = "abc") -> Result:
    machine = {"cpu": "a", "cores": 2, "memory_gb": 1.0, "system": "b", "filesystem": "c", "load_before": 0.1}
    return Result("tiny", rounds, "2030-01-02T03:04:05+00:00", machine, {"chronik": "1"}, commit)


def measured(row: str, line: str, figure: str, system: str, *values: float) -> Measured:
    """With a value for each round."""
    made = Measured(row, line, figure, system)
    for round_number, value in enumerate(values, 1):
        made.take(round_number, value)
    return made
