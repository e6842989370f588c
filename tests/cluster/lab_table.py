"""`make lab`: every fault of the gallery ten times and a hundred healthy runs, as a table. Ends with 1 if one is wrong.

python -m tests.cluster.lab_table [--runs 10] [--healthy 100] [NAME...]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from chronik.cli.output import print_line, print_table
from chronik.client.errors import ChronikError
from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.lab.run import LabRun
from tests.cluster.lab_traces import HEALTHY_LONGEST_S, HEALTHY_S, NAMED_S_MAX, run_lab

TRIES = 3
LONG_OF = 10  # one healthy run of so many lasts as long as the slowest rule wants to be sure


class Tally(NamedTuple):
    """How the runs of one exhibit went."""

    name: str
    runs: int
    right: int
    seconds: list[float]  # until it was named
    wrong: list[str]


def tally(name: str, runs: int) -> Tally:
    seconds: list[float] = []
    wrong: list[str] = []
    right = 0
    for number in range(1, runs + 1):
        lab = _run(name, HEALTHY_LONGEST_S if number <= runs // LONG_OF else HEALTHY_S)
        right += lab.is_right
        seconds += [] if lab.named_after_s is None else [lab.named_after_s]
        if not lab.is_right:
            called = "; ".join(f"{each.cause}: {each.summary} {each.evidence}" for each in lab.others) or "not named"
            wrong.append(f"{name}, run {number}: {called}")
            print_line(wrong[-1])
        print_line(f"{time.strftime('%H:%M:%S')} {name} {number}/{runs}: {'right' if lab.is_right else 'WRONG'}")
        sys.stdout.flush()
    return Tally(name, runs, right, seconds, wrong)


def _run(name: str, healthy_s: float) -> LabRun:
    seconds = healthy_s if name == HEALTHY else NAMED_S_MAX
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="chronik-lab-") as directory:
            try:
                return run_lab(name, Path(directory), seconds)
            except ChronikError as problem:  # somebody else took a port in between: that says nothing of the fault
                print_line(f"{name} did not start: {problem}")
    raise SystemExit(2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="of each fault")
    parser.add_argument("--healthy", type=int, default=100, help="runs of a cluster with nothing wrong")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*GALLERY, []], help="these only")
    given = parser.parse_args()
    names = given.names or list(GALLERY)
    tallies = [tally(name, given.healthy if name == HEALTHY else given.runs) for name in names]
    print_line()
    print_table(
        ["fault", "to be called", "right", "of", "named after (median)", "at most"],
        [
            (
                each.name,
                str(GALLERY[each.name].cause or "nothing"),
                each.right,
                each.runs,
                f"{statistics.median(each.seconds):.1f} s" if each.seconds else None,
                f"{max(each.seconds):.1f} s" if each.seconds else None,
            )
            for each in tallies
        ],
    )
    for each in tallies:
        for line in each.wrong:
            print_line(line)
    return int(any(each.right < each.runs for each in tallies))


if __name__ == "__main__":
    raise SystemExit(main())
