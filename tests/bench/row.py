"""What a row is: cases that return figures, and the figures' units and goals. rows/ has them, a module a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.bench.client_link import Client
from tests.bench.scale import Scale
from tests.bench.systems.system import Cluster, Server, System

Figures = Mapping[str, float]
Samples = Mapping[str, float | Sequence[float]]
"""By name: one number, or several of a kind (the gap of each kill), which are looked at with those of all rounds."""
Lines = Mapping[str, Samples]
"""Figures by the line of the table they belong to."""


@dataclass(frozen=True)
class Goal:
    """A bound that a figure should keep."""

    bound: float
    is_upper: bool

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.is_upper else value >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.is_upper else '≥'} {self.bound:,g}"


def at_most(bound: float) -> Goal:
    return Goal(bound, is_upper=True)


def at_least(bound: float) -> Goal:
    return Goal(bound, is_upper=False)


@dataclass(frozen=True)
class Figure:
    """One number that cases of a row return under `name`."""

    name: str
    label: str
    """As the table has it, with its unit."""
    goal: Goal | None = None
    """For Chronik's own figure."""
    digits: int = 0
    """After the decimal point, when shown."""
    ratio_goal: Goal | None = None
    """For Chronik's figure divided by the peer's."""
    moonshot: Goal | None = None
    """The same, for later."""
    is_longest: bool = False
    """Whether the largest of all values is shown, and not their median."""

    @property
    def is_less_better(self) -> bool | None:
        """None where no goal tells."""
        goal = self.ratio_goal or self.moonshot or self.goal
        return None if goal is None else goal.is_upper


@dataclass
class Bench:
    """What a case may use: a system to start, a client that is warm, an empty directory, and how much to do."""

    system: System
    client: Client
    directory: Path
    scale: Scale
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """What a case saw over time, by the name of its line: seconds, and a value."""

    @contextmanager
    def server(self, folder: str = "server", **settings: str) -> Iterator[Server]:
        """A node that is ready, for the length of a `with` block. Underscores in names stand for dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        server = self.system.server(self.directory / folder, named)
        try:
            server.spawn()
            server.wait_until_ready()
            yield server
            server.stop()
        finally:
            server.kill()

    @contextmanager
    def cluster(self, **settings: str) -> Iterator[Cluster]:
        """Three nodes that are one cluster, for the length of a `with` block. Underscores in names stand for dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        cluster = self.system.cluster(self.directory / "cluster", named)
        try:
            cluster.start()
            yield cluster
            cluster.stop()
        finally:
            cluster.kill()


@dataclass(frozen=True)
class Case:
    """One thing measured once a round. Rows may share a case, which is then measured once for all of them."""

    name: str
    measure: Callable[[Bench], Lines]
    is_quick: bool = True
    """Whether a quick run has it."""
    is_of_peer: bool = False
    """Whether it uses a tool of the peer: it is left out where there is no peer."""
    rounds_max: int | None = None
    """A case that takes many minutes is not measured in every round."""
    is_ours_only: bool = False
    """Whether the peer cannot be measured by it."""

    def is_in_round(self, number: int) -> bool:
        return self.rounds_max is None or number <= self.rounds_max


def one_line(
    name: str,
    measure: Callable[[Bench], Samples],
    *,
    is_quick: bool = True,
    rounds_max: int | None = None,
    is_ours_only: bool = False,
) -> Case:
    """A case that makes one line of the table, of its own name."""
    lines = partial(_line, name, measure)
    return Case(name, lines, is_quick, rounds_max=rounds_max, is_ours_only=is_ours_only)


def _line(name: str, measure: Callable[[Bench], Samples], bench: Bench) -> Lines:
    return {name: measure(bench)}


@dataclass(frozen=True)
class Row:
    """Cases whose lines have the same figures."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    cases: tuple[Case, ...]
    code: str = ""
    """B1 and so on, where performance.md has the row; the rest are Chronik's own."""
    is_alone: bool = False
    """Although it has a code it is not measured against the peer: there is nothing there to compare with."""
    is_on_spark: bool = False
    """Whether it needs Spark, and so Java."""
    takes: str = ""
    """Only lines of its cases that begin so are this row's."""

    @property
    def has_peer(self) -> bool:
        return bool(self.code) and not self.is_alone

    def figure(self, name: str) -> Figure:
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(f"row {self.name} has no figure {name!r}")

    def own(self, lines: Lines) -> Lines:
        """What of a case's lines is this row's: the rest belongs to others that share the case."""
        names = [figure.name for figure in self.figures]
        return {
            line: {name: figures[name] for name in names if name in figures}
            for line, figures in lines.items()
            if line.startswith(self.takes)
        }

    @property
    def heading(self) -> str:
        return f"{self.code} · {self.title}" if self.code else self.title
