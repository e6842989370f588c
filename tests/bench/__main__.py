"""The command line of the bench: measure, show a result again, or put one on the page in docs/.

python -m tests.bench [ROW ...] [--rounds N] [--quick]      measure, print, keep in bench-results/
python -m tests.bench show [RESULT]                         the newest if none is named
python -m tests.bench publish [RESULT]                      rewrite the figures of docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.bench import report, results
from tests.bench.row import Row
from tests.bench.rows import ROWS
from tests.bench.runner import count_of_steps, run
from tests.bench.scale import SCALES, Scale
from tests.bench.systems.chronik import Chronik
from tests.bench.systems.system import System

SYSTEMS: tuple[System, ...] = (Chronik(),)
EXIT_BAD_INPUT = 2


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("show", "publish"):
        return show_or_publish(*arguments)
    parser = argparse.ArgumentParser(
        "python -m tests.bench", description="Measure a node. `show` and `publish` follow."
    )
    names = [row.name for row in ROWS]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these rows: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, help="how often each case is run (3; quick: 1)")
    parser.add_argument("--quick", action="store_const", dest="scale", const="quick", default="full", help="do less")
    parser.add_argument("--scale", choices=sorted(SCALES), help="how much to do")
    parser.add_argument("--out", type=Path, help="the result file; else one in bench-results/")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.rows) - set(names))
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(names)}")
    if asked.rounds is not None and asked.rounds < 1:
        parser.error("--rounds must be 1 or more")
    rows = [row for row in ROWS if not asked.rows or row.name in asked.rows]
    scale = SCALES[asked.scale]
    return measure(rows, scale, asked.rounds or scale.rounds, asked.out)


def measure(rows: list[Row], scale: Scale, rounds: int, out: Path | None) -> int:
    # Not in /tmp, which is in memory on many machines: syncing there costs nothing.
    scratch = results.RESULTS_DIR / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    result = results.new_result(scale.name, rounds, scratch, {system.name: system.version for system in SYSTEMS})
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=count_of_steps(rows, SYSTEMS, rounds))
        done = -1

        def announce(what: str) -> None:
            nonlocal done
            done += 1
            progress.update(bar, description=what, completed=done)

        try:
            run(result, rows, SYSTEMS, scale, scratch, announce)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    report.show(result, console)
    path = out or results.result_path(result)
    result.save(path)
    console.print(f"kept in {path}", soft_wrap=True)
    return 1 if result.failures else 0


def show_or_publish(what: str, *paths: str) -> int:
    path = Path(paths[0]) if paths else results.newest()
    if path is None or not path.is_file():
        print(f"no such result: {path}" if path else "no result yet: run `make bench`", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        result = results.load(path)
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return EXIT_BAD_INPUT
    if what == "publish":
        report.publish(result)
        print(f"{report.PAGE.relative_to(results.ROOT)} now has the figures of {path.name}")
    else:
        report.show(result, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
