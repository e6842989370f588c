"""`make demo`: the run that Chronik began with ends with all 5,000 messages, and would say so if it did not.

What it does on Spark after that is in tests/spark/test_report.py."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "demo" / "seed_run.py"


def run_demo(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMO), "--no-spark", "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def test_five_thousand_of_five_thousand_are_consumed_through_each_node(tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("5,000 of 5,000 consumed in") == 3
    assert "Traceback" not in done.stderr


def test_what_did_not_arrive_in_time_is_said_and_ends_it_with_1(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--nodes", "1", "--messages", "50", "--timeout", "0.01")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "0 of 50 consumed" in done.stdout
    assert "client limit or timeout" in done.stdout.lower()


@pytest.mark.parametrize(
    ("lost", "duplicated", "is_well"), [(0, 0, True), (1, 0, False), (0, 1, False)], ids=["each once", "lost", "twice"]
)
def test_a_message_that_is_missing_or_came_twice_ends_it_with_1(lost: int, duplicated: int, is_well: bool) -> None:
    is_each_once = runpy.run_path(str(DEMO))["is_each_once"]

    assert is_each_once({"lost": lost, "duplicated": duplicated}) is is_well
