"""`make mutants`: put each known fault of failure-modes.md in, run the tests that must notice, take it out again.

Exit code 0 when all were caught; 1 when one survived, its patch no longer applies, or its tests do not pass without
it; 2 when it was asked for something there is not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.mutants.mutant import ROOT, BadMutant, Mutant, all_mutants
from tests.mutants.workplace import Outcome, Workplace

AT_ONCE = 2
FILE_WIDTH = 220  # of the report where there is no terminal to fit it into
EXIT_SURVIVED, EXIT_USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    console = Console(stderr=asked.json)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    try:
        mutants = _chosen(asked.only, asked.changed)
    except (BadMutant, subprocess.CalledProcessError) as problem:
        console.print(f"[red]{problem}[/red]", highlight=False)
        return EXIT_USAGE
    if not mutants:
        console.print("no such mutant" if asked.only else "nothing changed that a mutant is about")
        return EXIT_USAGE if asked.only else 0
    with _workplaces(min(AT_ONCE, len(mutants))) as workplaces:
        problem_without = _without_faults(workplaces, mutants, console)
        outcomes = [] if problem_without else _try_all(workplaces, mutants, console)
    if asked.json:
        sys.stdout.write(json.dumps([_as_json(outcome) for outcome in outcomes], indent=2) + "\n")
    if problem_without:
        console.print(f"[red]the tests do not pass without any fault:[/red]\n{problem_without}", highlight=False)
        return EXIT_SURVIVED
    _report(outcomes, console)
    return EXIT_SURVIVED if any(outcome.problem for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", default=[], metavar="F8", help="a number, or how a name begins")
    parser.add_argument(
        "--changed", metavar="BASE", help="only those whose patch, file or test has changed since this commit"
    )
    parser.add_argument("--json", action="store_true", help="the outcomes on stdout, everything else on stderr")
    return parser


def _chosen(only: list[str], base: str | None) -> list[Mutant]:
    mutants = [mutant for mutant in all_mutants() if not only or mutant.is_called(only)]
    if base is None:
        return mutants
    changed = set(_git("diff", "--name-only", base)) | set(_git("ls-files", "--others", "--exclude-standard"))
    return [mutant for mutant in mutants if changed & _paths(mutant)]


def _paths(mutant: Mutant) -> set[str]:
    tests = {test.partition("::")[0] for test in mutant.caught_by}
    return {*mutant.touched, *tests, str(mutant.path.relative_to(ROOT))}


def _git(*command: str) -> list[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


@contextmanager
def _workplaces(count: int) -> Iterator[list[Workplace]]:
    with tempfile.TemporaryDirectory(prefix="chronik-mutants-") as scratch:
        workplaces = [Workplace(Path(scratch) / str(number)) for number in range(count)]
        try:
            yield workplaces
        finally:
            for workplace in workplaces:
                workplace.close()


def _without_faults(workplaces: list[Workplace], mutants: list[Mutant], console: Console) -> str | None:
    """What is wrong when the tests of all these mutants do not pass as they should. Each workplace runs its share."""
    tests = sorted({test for mutant in mutants for test in mutant.caught_by})
    console.print(f"{len(tests)} tests without any fault ...", end=" ")
    shares = [share for number in range(len(workplaces)) if (share := tests[number :: len(workplaces)])]
    with ThreadPoolExecutor(len(workplaces)) as pool:
        outcomes = list(pool.map(Workplace.run_tests, workplaces, shares))
    problems = [output for code, output in outcomes if code != 0]
    console.print("fail" if problems else "pass")
    return "\n".join(problems) or None


def _try_all(workplaces: list[Workplace], mutants: list[Mutant], console: Console) -> list[Outcome]:
    free: SimpleQueue[Workplace] = SimpleQueue()
    for workplace in workplaces:
        free.put(workplace)

    def attempt(mutant: Mutant) -> Outcome:
        workplace = free.get()
        try:
            outcome = workplace.try_mutant(mutant)
            if outcome.problem:  # a test that throws dice may miss once; that it did is told at the end
                first_problem = outcome.problem
                outcome = workplace.try_mutant(mutant)
                outcome.first_problem = first_problem
            return outcome
        finally:
            free.put(workplace)

    outcomes: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(len(workplaces)) as pool,
    ):
        task = progress.add_task("mutants", total=len(mutants))
        for outcome in pool.map(attempt, mutants):
            outcomes.append(outcome)
            progress.advance(task)
            word = f"[red]{outcome.problem}[/red]" if outcome.problem else "[green]caught[/green]"
            progress.console.print(f"{outcome.mutant.name}: {word} ({outcome.seconds:.1f} s)", highlight=False)
    return outcomes


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "mutant": outcome.mutant.name,
        "fault": outcome.mutant.fault,
        "caught_by": outcome.caught_by,
        "seconds": round(outcome.seconds, 2),
        "problem": outcome.problem,
        "first_problem": outcome.first_problem,
    }


def _report(outcomes: list[Outcome], console: Console) -> None:
    table = Table("mutant", "fault", "caught by", "seconds")
    for outcome in outcomes:
        tests = "\n".join(test.removeprefix("tests/") for test in outcome.caught_by)
        caught_by = f"[red]{outcome.problem}[/red]" if outcome.problem else tests
        table.add_row(outcome.mutant.name, outcome.mutant.fault, caught_by, f"{outcome.seconds:.1f}")
    console.print(table)
    survivors = [outcome for outcome in outcomes if outcome.problem]
    for outcome in outcomes:
        if outcome.first_problem and not outcome.problem:
            console.print(f"{outcome.mutant.name}: caught, but not at first: {outcome.first_problem}", highlight=False)
    for outcome in survivors:  # once more, at the end: the table is long, and of a log often only the end is kept
        console.print(f"[red]{outcome.mutant.name}: {outcome.problem}[/red]", highlight=False)
    caught = len(outcomes) - len(survivors)
    console.print(f"{caught} of {len(outcomes)} mutants caught", style="red" if survivors else "green")


if __name__ == "__main__":
    sys.exit(main())
