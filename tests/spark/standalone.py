"""A real Spark cluster on loopback: a master and two workers, from the same PyPI package as the tests."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.clients.jvm import SHORT_LIFE
from tests.clients.support import wait_until

WORKERS = 2
START_SECONDS_MAX = 90.0
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


class Standalone:
    """Its address, and what a driver needs in its environment."""

    def __init__(self, master: str, folder: Path) -> None:
        self.master = master
        self.environment = {"PYSPARK_PYTHON": str(folder / "python"), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._folder = folder

    def executors(self) -> list[set[str]]:
        """Of each application, in the order of their starts: the workers that ran executors for it."""
        found: dict[str, set[str]] = {}
        for place in self._folder.glob("worker-*/app-*"):
            found.setdefault(place.name, set()).add(place.parent.name)
        return [found[name] for name in sorted(found)]


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    # As docs/pipeline-cluster.md says: without Spark's zip of PySpark, which every Python process would compile anew.
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {sys.executable} "$@"\n')
    python.chmod(0o755)
    with contextlib.ExitStack() as stack:
        said = folder / "master.log"
        local = ("--host", "127.0.0.1", "--webui-port", "0")
        stack.enter_context(running(folder, said, _MASTER, *local, "--port", "0"))
        wait_until(lambda: "New state: ALIVE" in said.read_text(), said.read_text, START_SECONDS_MAX)
        found = re.search(r"Starting Spark master at (spark://\S+)", said.read_text())
        assert found is not None
        for number in range(WORKERS):
            limits = ("--cores", "1", "--memory", "700m", "--work-dir", str(folder / f"worker-{number}"))
            stack.enter_context(running(folder, folder / f"worker-{number}.log", _WORKER, *local, *limits, found[1]))
        wait_until(lambda: said.read_text().count("Registering worker") == WORKERS, said.read_text, START_SECONDS_MAX)
        yield Standalone(found[1], folder)


@contextlib.contextmanager
def running(folder: Path, log: Path, program: str, *arguments: str, **environment: str) -> Iterator[None]:
    """One of Spark's own programs, in that folder, until the block ends."""
    spark_class = Path(pyspark.__path__[0]) / "bin" / "spark-class"
    # A killed test run leaves nothing behind, where the system can promise that.
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [*guard, str(spark_class), program, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(folder) | environment,
            cwd=folder,
        )
        try:
            yield
        finally:
            daemon.terminate()  # a worker ends its executors
            daemon.wait()


def _environment(folder: Path) -> dict[str, str]:
    """Nothing of the session that this process may have."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return own | {
        "SPARK_HOME": str(pyspark.__path__[0]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
        "JAVA_TOOL_OPTIONS": " ".join(SHORT_LIFE),
        "PYSPARK_PYTHON": str(folder / "python"),
    }
