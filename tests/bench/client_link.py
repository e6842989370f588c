"""The bench's end of the client process: one line of JSON there, one back.

Clients run in a process of their own, so that their CPU is theirs, and one that is warm, so that no import is timed.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 300.0


class ClientFailed(Exception):
    """A job went wrong in the client process; the message says how."""


class Client:
    """A client process, started and warmed up by the first job. Jobs are those of tests/bench/client/__main__.py."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.client"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
            self.ask("warm_up")
        return self._process

    def ask(self, job: str, **arguments: Any) -> dict[str, float]:
        """Have a job done, and return its figures. Raises ClientFailed."""
        self.begin(job, **arguments)
        return self.wait_for_figures()

    def begin(self, job: str, **arguments: Any) -> None:
        """Have a job done while something else happens here."""
        requests = self._started().stdin
        assert requests is not None
        requests.write(json.dumps({"job": job, "arguments": arguments}).encode() + b"\n")

    def wait_for_figures(self) -> dict[str, float]:
        answers = self._started().stdout
        assert answers is not None
        with selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            ready = selector.select(ANSWER_TIMEOUT_S)
        if not ready:
            raise ClientFailed(f"no answer within {ANSWER_TIMEOUT_S:.0f} s")
        line = answers.readline()
        if not line:
            raise ClientFailed("the client process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientFailed(answer["error"])
        figures: dict[str, float] = answer["figures"]
        return figures

    def close(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
