"""`chronik pipeline ...` as a user runs it. Nothing that Spark or Java needed while it ran may be left after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.jvm import SHORT_LIFE

RUN_S_MAX = 800.0  # a machine that does ten other things
TEMPORARY = "temporary"
SEVERAL = Path(__file__).with_name("several_commands.py")


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code in (0, 1), self.err
        return json.loads(self.out)


def run_command(folder: Path, *arguments: str, **environment: str) -> Done:
    """One, in a process of its own."""
    return _run(folder, [sys.executable, "-m", "chronik", "pipeline", *arguments], environment)


def run_commands(folder: Path, commands: Mapping[str, Sequence[str]], **environment: str) -> dict[str, Done]:
    """One after the other in one process, which starts Java once. Each one's output is in `folder/<name>.out`, so that
    those after it can read it."""
    wish = folder / "commands.json"
    wish.write_text(json.dumps(commands))
    done = _run(folder, [sys.executable, str(SEVERAL), str(wish)], environment)
    assert done.code == 0, done.err
    return {name: Done(*each) for name, each in json.loads(done.out).items()}


def environment_of(folder: Path) -> dict[str, str]:
    """Of a command: what is temporary goes where it can be looked for, and Java does not expect a long life."""
    place = folder / TEMPORARY
    place.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(place), "JAVA_TOOL_OPTIONS": " ".join(SHORT_LIFE)}


def left_in(folder: Path) -> list[str]:
    """What is still there of what was temporary."""
    return sorted(each.name for each in (folder / TEMPORARY).iterdir())


def _run(folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> Done:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**environment_of(folder), **environment},
        timeout=RUN_S_MAX,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert left_in(folder) == []
    return Done(done.returncode, done.stdout, done.stderr)
