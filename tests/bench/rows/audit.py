"""The audit as it grows: ten times the records, as runs of a hundred, with 0.01 % of each kind of fault planted.

One round: both take three minutes together, most of it to plant the faults, and a growth is a ratio within the round.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.bench.client_link import ROOT
from tests.bench.row import Bench, Case, Figure, Figures, Lines, Row, at_most
from tests.bench.systems.system import ServerFailed

TIMEOUT_S = 1_800.0


def two_sizes(bench: Bench) -> Lines:
    few, many = bench.scale.audited
    of_few, of_many = audited(bench, few), audited(bench, many)
    growth = {name: of_many[name] / of_few[name] for name in of_few}
    return {f"audit of {few:,}": of_few, f"audit of {many:,}": of_many, f"growth {few:,} to {many:,}": growth}


def audited(bench: Bench, records: int) -> Figures:
    """A process of its own, so that the memory is that of one audit."""
    folder = bench.directory / f"audit-{records}"
    command = [sys.executable, "-m", "tests.bench.audit_job", str(folder), str(records)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise ServerFailed(f"the audit failed: {done.stderr.strip().splitlines()[-1:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


_CASES = (Case("ten times as much", two_sizes, rounds_max=1),)
_NAMES = (("seconds", "seconds"), ("cpu_s", "CPU, seconds"), ("memory_mb", "all processes, MB"))
ROW = Row(
    "audit",
    "Audit of planted faults on Spark, local[2], driver heap 2 GB: everything planted is found, nothing else",
    (*(Figure(name, label, digits=1) for name, label in _NAMES), Figure("records_s", "records a second")),
    _CASES,
    code="B14",
    is_alone=True,
    is_on_spark=True,
    takes="audit of",
)
GROWTH = Row(
    "audit-growth",
    "The same, as growth: ten times the records, so many times the cost",
    (Figure("seconds", "seconds", at_most(11.0), digits=2), Figure("memory_mb", "memory", at_most(11.0), digits=2)),
    _CASES,
    code="B14",
    is_alone=True,
    is_on_spark=True,
    takes="growth",
)
