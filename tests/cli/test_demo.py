"""`make demo`: the run that Chronik began with ends with all 5,000 messages, and would say so if it did not."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from demo.seed_run import PartitionResult, Run, report

DEMO = Path(__file__).parents[2] / "demo" / "seed_run.py"


def test_five_thousand_of_five_thousand_are_consumed_through_each_node() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("5,000 of 5,000 consumed in") == 3
    assert "Traceback" not in done.stderr


def _partition(acknowledged: int) -> PartitionResult:
    return PartitionResult(acknowledged, {offset: offset * 3 for offset in range(acknowledged)})


def test_a_missing_a_doubled_and_an_invented_message_are_each_seen() -> None:
    complete, missing, doubled, invented = (_partition(4) for _ in range(4))
    for part in (complete, missing, doubled, invented):
        for offset in range(4):
            part.deliver(offset, offset * 3)
    del missing.consumed[2]
    doubled.deliver(1, 3)
    invented.deliver(1, 999)

    assert Run("t", [complete]).is_complete(4)
    assert (missing.missing, Run("t", [missing]).is_complete(4)) == (1, False)
    assert (doubled.duplicated, Run("t", [doubled]).is_complete(4)) == (1, False)
    assert (invented.wrong, Run("t", [invented]).is_complete(4)) == (1, False)


def test_the_report_names_what_was_refused_and_fits_a_terminal() -> None:
    run = Run("t", [_partition(2), PartitionResult(produced=3)])
    run.refused["NotLeaderForPartitionError: no leader"] = 3
    console = Console(record=True, width=100, file=io.StringIO())

    report(console, run, 5)

    text = console.export_text()
    assert "3 not acknowledged: NotLeaderForPartitionError: no leader" in text
    assert "0 of 5 consumed in 0.0 s" in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
