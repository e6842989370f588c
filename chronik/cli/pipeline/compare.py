"""`chronik pipeline compare`: many runs of verify, and audits, as one table over versions and settings."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.options import AsJson, example
from chronik.cli.output import counted, print_json, print_line, print_note, print_table
from chronik.cli.pipeline.options import (
    DEFAULT_MASTER,
    DEFAULT_MEMORY,
    DriverMemory,
    Master,
    Remote,
    SparkSettings,
    spark_session,
)
from chronik.cli.values import local
from chronik.client.errors import ChronikError

if TYPE_CHECKING:
    from chronik.pipeline.jobs.compare import CompareOutcome

EXAMPLE = example(
    "chronik pipeline compare",
    "chronik pipeline compare laptop.sqlite3 ci.sqlite3 audit.json --by version --by acks",
    "chronik pipeline compare --out tables/compare --json",
)
FIGURES = (
    ("runs", "runs"),
    ("passed", "passed"),
    ("acknowledged", "acknowledged"),
    ("arrived", "arrived"),
    ("lost", "lost"),
    ("duplicated", "duplicated"),
    ("reordered", "reordered"),
    ("produced_per_second", "produced/s"),
    ("consumed_per_second", "consumed/s"),
    ("causes", "causes"),
)


def compare(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Histories, or what --json printed of runs and audits."),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="NAME", help="Tell runs apart by this; repeat for more.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", callback=local, help="Write the tables there, as Parquet.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    driver_memory: DriverMemory = DEFAULT_MEMORY,
    spark: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Compare many runs of `chronik verify`, and audits, in one table: by version, client, acks and all other settings.

    Without a file: the history that `chronik verify` keeps here. Rates are medians.
    """
    paths = [os.path.abspath(path) for path in files or [str(_history())]]
    for path in paths:
        if not os.path.exists(path):
            raise ChronikError(f"there is no file {path}", "`chronik verify` makes a run, and keeps it in its history")
    with spark_session("compare", master, driver_memory, spark, remote) as session:
        from chronik.pipeline.jobs.compare import CompareSettings, run
        from chronik.pipeline.progress import progress

        with progress(session, "compare", is_wanted=not as_json) as bar:
            outcome = run(session, CompareSettings(paths, tuple(by or ()), out), bar)
    if as_json:
        print_json(asdict(outcome))
    else:
        tell(outcome)


def _history() -> Path:
    from chronik.verify.history import default_path

    return Path(os.environ.get("CHRONIK_VERIFY_HISTORY") or default_path())


def tell(outcome: CompareOutcome) -> None:
    names = [name for name, _ in FIGURES if any(row[name] for row in outcome.rows) or name in ("lost", "passed")]
    titles = dict(FIGURES)
    print_table(
        [*(name.replace("_", " ") for name in outcome.by), *(titles[name] for name in names)],
        [[*(row[name] for name in outcome.by), *(_figure(row[name]) for name in names)] for row in outcome.rows],
    )
    if outcome.same:
        same = ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in outcome.same.items())
        print_note(f"{counted(outcome.runs, 'run')}; in all of them: {same}")
    if outcome.out is not None:
        print_line(f"all tables are in {outcome.out}")


def _figure(value: Any) -> Any:
    return round(value) if isinstance(value, float) else value


def _word(value: Any) -> str:
    return "-" if value is None else "yes" if value is True else "no" if value is False else str(value)
