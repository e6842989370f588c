"""Other people's programs as child processes: each in its own process group, its log in a file, ended with the test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from xml.etree import ElementTree

import pytest

from tests.clients.jvm import CACHE, java_command

HERE = Path(__file__).parent
QUIXSTREAMS = CACHE / "quixstreams"
# For what takes seconds on an idle machine: a busy one fails nothing.
PROGRAM_SECONDS = 240.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.2
# Two cores are shared by nodes, programs and the test.
JVM_FLAGS = (
    "-Xmx256m",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
)
COMPLAINT = re.compile(r"\b(WARN|ERROR|FATAL)\b")


def jars() -> Path:
    """Where setup.sh puts the jars of java/pom.xml."""
    version = ElementTree.parse(HERE / "java" / "pom.xml").getroot().findtext("{*}version")
    return CACHE / f"kafka-ecosystem-{version}"


def needs(program: str) -> None:
    """At the top of a test module: skips it by name if its program is not here.

    With CHRONIK_REQUIRE_CLIENTS=1 a missing program is an error.
    """
    there = {
        "kafka ecosystem": (shutil.which("javac") is not None) and (jars() / "pom.xml").exists(),
        "karapace": shutil.which(karapace_python()) is not None,
        "quixstreams": (QUIXSTREAMS / "installed.txt").exists(),
    }
    if there[program]:
        return
    if program == "karapace":  # it is on no package index
        pytest.skip("CHRONIK_KARAPACE names no Python that has karapace", allow_module_level=True)
    reason = f"{program} is not installed (tests/ecosystem/setup.sh does it)"
    if os.environ.get("CHRONIK_REQUIRE_CLIENTS") == "1":
        raise RuntimeError(reason)
    pytest.skip(reason, allow_module_level=True)


def karapace_python() -> str:
    """The Python that runs Karapace; empty if there is none."""
    return os.environ.get("CHRONIK_KARAPACE", "")


def java(main_class: str, *arguments: str, classes: Path | None = None) -> list[str]:
    """The command that runs a class of the jars, or of `classes`."""
    return [*java_command(jars(), main_class, *JVM_FLAGS, folder=classes), *arguments]


def compiled(source: str, folder: Path) -> Path:
    """Compiles a program of java/; returns the folder of its classes."""
    command = ["javac", "-d", str(folder), "-cp", f"{jars()}/*", str(HERE / "java" / source)]
    subprocess.run(command, check=True, timeout=PROGRAM_SECONDS)
    return folder


def properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A properties file, as Java programs take it."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


class Program:
    """A program that runs until it is stopped. As a context: whatever happens, nothing of it is left behind."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str] | None = None,
        log_folder: Path | None = None,
    ) -> None:
        self.name = name
        self.log_path = (log_folder or folder) / f"{name}.log"
        self._command = list(command)
        self._folder = folder
        self._env = {**os.environ, **(env or {})}
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Program:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        assert self._child is None, f"{self.name} is running"
        with self.log_path.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> int:
        """Asks it to end (SIGTERM), waits, and returns its exit code."""
        assert self._child is not None, f"{self.name} is not running"
        self._child.terminate()
        try:
            code = self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end within {STOP_SECONDS:.0f} s of SIGTERM:\n{self.tail()}")
        self.kill()
        return code

    def kill(self) -> None:
        """SIGKILL for the whole group, be it alive or not."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):  # it had ended, and left nothing behind
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def tail(self) -> str:
        return self.log()[-6000:]

    def complaints(self) -> list[str]:
        """What it logged as a warning or an error, each with the lines after it, where causes stand."""
        lines = self.log().splitlines()
        return ["\n".join(lines[at : at + 3]) for at, line in enumerate(lines) if COMPLAINT.search(line)]

    def wait_until(
        self, condition: Callable[[], bool], what: str | Callable[[], object], seconds: float = PROGRAM_SECONDS
    ) -> None:
        """Until it is so; fails at once when the program ends, with what it logged."""
        deadline = time.monotonic() + seconds
        while not condition():
            said = what() if callable(what) else what
            if self._child is None or self._child.poll() is not None:
                pytest.fail(f"{self.name} ended before this: {said}\n{self.tail()}")
            if time.monotonic() > deadline:
                pytest.fail(f"not within {seconds:.0f} s: {said}\n{self.tail()}")
            time.sleep(POLL_SECONDS)
