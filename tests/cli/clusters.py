"""`chronik cluster` in a directory of a test's own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from chronik.local_cluster.directory import ClusterDirectory
from tests.cli.conftest import Chronik, Result

NODES = 3


class Local:
    """A directory with `chronik cluster` commands in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.chronik = Chronik("127.0.0.1:1")  # which none of these commands asks

    def ok(self, command: str, *arguments: str) -> Result:
        return self.chronik.ok("cluster", command, *arguments, "--data-dir", str(self.path))

    def refused(self, command: str, *arguments: str) -> str:
        return self.chronik.refused("cluster", command, *arguments, "--data-dir", str(self.path))

    def started(self, *arguments: str, nodes: int = NODES) -> Any:
        return self.ok("start", "--nodes", str(nodes), "--port", "0", "--detach", "--json", *arguments).json

    def status(self) -> Any:
        return self.ok("status", "--json").json

    def alive(self) -> dict[int, int]:
        """The process ids of the nodes that run; none before there is a cluster."""
        found = ClusterDirectory.find(str(self.path)) if self.path.exists() else None
        return {} if found is None else found.alive()

    def kill_all(self) -> None:
        with contextlib.suppress(Exception):
            for pid in self.alive().values():
                os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """A process that has ended and that nobody has asked about does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
