"""A process that runs pytest again and again, each time in a fresh child: most of a short run is loading other
people's modules, and those are the same with a fault and without.

Speaks lines of JSON: in comes {"arguments", "output", "seconds"}, out goes pytest's exit code, or null when it had to
be ended. What the first child loaded besides this repository is loaded here as well before the second begins.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

OURS = ("chronik", "tests", "tools", "conftest", "__main__")


def main() -> None:
    is_warm = False
    for line in sys.stdin:
        request = json.loads(line)
        output = Path(request["output"])
        code = _run(request["arguments"], output, request["seconds"])
        if not is_warm and code is not None:
            _warm_up(output.with_suffix(".modules"))
            is_warm = True
        sys.stdout.write(json.dumps(code) + "\n")
        sys.stdout.flush()


def _run(arguments: list[str], output: Path, seconds: float) -> int | None:
    child = os.fork()
    if child == 0:
        _be_child(arguments, output)
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


def _be_child(arguments: list[str], output: Path) -> None:
    """Never returns."""
    code = -1
    try:
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = int(pytest.main(arguments))
        sys.stdout.flush()
        loaded = [name for name in list(sys.modules) if name.partition(".")[0] not in OURS]
        output.with_suffix(".modules").write_text("\n".join(loaded))
    finally:
        os._exit(code & 0xFF)


def _warm_up(modules: Path) -> None:
    for name in modules.read_text().splitlines():
        # Some are made while running and can be found under no such name; they are made again.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    main()
