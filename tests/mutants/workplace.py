"""A copy of the working tree in which one mutant after the other is put in, tested and taken out again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant, apply, files_of

TEST_SECONDS_MAX = 60  # for one test; a fault may well make it hang
RUN_SECONDS_MAX = 300

_FAILED = re.compile(r"^FAILED (\S+?::\w+)", re.MULTILINE)
TESTS_FAILED = 1  # pytest's exit code for that, and for nothing else


@dataclass
class Outcome:
    """What became of a mutant. `problem` says why it does not count as caught."""

    mutant: Mutant
    caught_by: list[str] = field(default_factory=list)
    seconds: float = 0.0
    problem: str | None = None
    first_problem: str | None = None  # what the first attempt said, when it took a second one


class Workplace:
    """A directory of its own, so that nobody works on a tree with a fault in it by accident."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for path in files_of():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target)
        # The package is installed in place: without this path the tests would load it from the tree without the fault.
        environment = {**os.environ, "PYTHONPATH": str(directory), "COLUMNS": "2000"}
        command = [sys.executable, "-m", "tests.mutants.warm"]
        pipe = subprocess.PIPE
        self._warm = subprocess.Popen(command, cwd=directory, env=environment, stdin=pipe, stdout=pipe, text=True)

    def try_mutant(self, mutant: Mutant) -> Outcome:
        """Each test it names must fail."""
        began = time.monotonic()
        outcome = Outcome(mutant)
        as_it_was = {path: (self.directory / path).read_bytes() for path in mutant.touched}
        outcome.problem = apply(mutant, self.directory)
        if outcome.problem is None:
            self._forget_compiled(mutant.touched)
            self._test(mutant, outcome)
            for path, content in as_it_was.items():
                (self.directory / path).write_bytes(content)
            self._forget_compiled(mutant.touched)
        else:
            outcome.problem = f"does not apply: {outcome.problem.splitlines()[0]}"
        outcome.seconds = time.monotonic() - began
        return outcome

    def _forget_compiled(self, paths: Sequence[str]) -> None:
        """Compiled code is told from stale by size and time in whole seconds: too coarse for us."""
        for path in paths:
            source = self.directory / path
            for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*"):
                compiled.unlink()

    def _test(self, mutant: Mutant, outcome: Outcome) -> None:
        code, output = self.run_tests(mutant.caught_by)
        failed = set(_FAILED.findall(output))
        outcome.caught_by = [test for test in mutant.caught_by if test in failed]
        if code not in (0, TESTS_FAILED):
            how = "had to be ended" if code is None else f"did not run, exit code {code}"
            outcome.problem = f"the tests {how}: {_last_line(output)}"
        elif missed := [test for test in mutant.caught_by if test not in failed]:
            outcome.problem = f"survived {', '.join(missed)}"

    def run_tests(self, tests: Sequence[str]) -> tuple[int | None, str]:
        """Exit code and output of pytest for these, in this tree and no other; no code when it did not end."""
        arguments = [*tests, "-q", "-rf", "--tb=no", "--hypothesis-seed=1", f"--timeout={TEST_SECONDS_MAX}"]
        arguments += ["-p", "no:cacheprovider", "-p", "no:randomly"]
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins that were loaded before
        output = self.directory.with_suffix(".out")
        output.write_text("")
        request = {"arguments": arguments, "output": str(output), "seconds": RUN_SECONDS_MAX}
        assert self._warm.stdin is not None  # it was started with both
        assert self._warm.stdout is not None
        self._warm.stdin.write(json.dumps(request) + "\n")
        self._warm.stdin.flush()
        answer = self._warm.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that runs the tests ended with {self._warm.wait()}")
        code: int | None = json.loads(answer)
        return code, output.read_text(errors="replace")

    def close(self) -> None:
        self._warm.communicate()


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
