"""Programs in other languages that make many checks in one run, and print one line of JSON for each:

    {"check": "headers come back", "error": null}

The names are read from the program's source, so that pytest shows each check as a test, and one that never ran
as a failure.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM_SECONDS_MAX = 110.0


def names_in(*sources: Path) -> list[str]:
    """The first argument of each call `check("…"` in the program."""
    names = [name for source in sources for name in re.findall(r'\bcheck\("([^"]+)"', source.read_text())]
    assert len(names) == len(set(names)), "two checks of one name"
    return names


class Outcomes:
    """What a program's run said about each of its checks."""

    def __init__(self, command: list[str], folder: Path | None = None) -> None:
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False
            )
            printed, self._last_words = done.stdout, f"exit code {done.returncode}\n{done.stderr[-4000:]}"
        except subprocess.TimeoutExpired as late:
            printed = (late.stdout or b"").decode()
            self._last_words = f"stopped after {late.timeout:.0f} s"
        said = [json.loads(line) for line in printed.splitlines() if line.startswith('{"check"')]
        self._errors: dict[str, str | None] = {one["check"]: one["error"] for one in said}

    def must_hold(self, check: str) -> None:
        if check not in self._errors:
            pytest.fail(f"the program never came to this check: {self._last_words}", pytrace=False)
        error = self._errors[check]
        if error is not None:
            pytest.fail(error, pytrace=False)
