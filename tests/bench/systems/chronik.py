"""Chronik: `chronik serve` in a child process, as a user starts it, with its HTTP port."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from chronik import __version__
from chronik.testing import ClusterNotReady, NodeDied, RunningCluster
from tests.bench.systems.asking import leader_when_in_sync
from tests.bench.systems.system import MORE_LISTENERS, Cluster, Server, ServerFailed, free_ports

ROOT = Path(__file__).resolve().parents[3]  # this tree is measured, whatever is installed
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
NODES = 3
READY_WORDS = b"ready: Kafka clients at"


class ChronikServer:
    """One node."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._settings = dict(settings)
        self._more_listeners = self._settings.pop(MORE_LISTENERS, "")
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def _log_path(self) -> Path:
        return self._directory / "node.log"

    def spawn(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "chronik", "serve", "--data-dir", str(self._directory / "data")]
        command += ["--listen", f"127.0.0.1:{self._port}{self._more_listeners}", "--http", "127.0.0.1:0"]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        with self._log_path.open("ab") as printed:
            self._log_start = printed.tell()
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while READY_WORDS not in self._printed():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"the node did not start:\n{self._printed().decode(errors='replace')}")
            time.sleep(0.002)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as problem:
            raise ServerFailed(f"the node did not stop within {STOP_TIMEOUT_S:.0f} s") from problem
        self._process = None
        if code != 0:
            raise ServerFailed(f"the node ended with {code}:\n{self._printed().decode(errors='replace')}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _printed(self) -> bytes:
        with self._log_path.open("rb") as printed:
            printed.seek(self._log_start)
            return printed.read()


class ChronikCluster:
    """Three nodes, as tests have them."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._running = RunningCluster(NODES, str(directory), settings)

    @property
    def bootstrap(self) -> str:
        return self._running.bootstrap

    @property
    def pids(self) -> dict[int, int]:
        return {node_id: node.pid for node_id, node in self._running.running().items()}

    @property
    def ports(self) -> dict[int, int]:
        return {node_id: node.port for node_id, node in self._running.nodes.items()}

    def start(self) -> None:
        try:
            self._running.start()
        except (NodeDied, ClusterNotReady) as problem:
            raise ServerFailed(str(problem)) from problem

    def wait_until_in_sync(self, topic: str) -> int:
        return leader_when_in_sync(self.ports.values(), topic, NODES, READY_TIMEOUT_S)

    def stop(self) -> None:
        try:
            self._running.stop()
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            raise ServerFailed(str(problem)) from problem

    def kill(self) -> None:
        self._running.kill_all()


class Chronik:
    """The System."""

    name = "chronik"
    version = __version__

    def server(self, directory: Path, settings: Mapping[str, str]) -> Server:
        return ChronikServer(directory, settings)

    def cluster(self, directory: Path, settings: Mapping[str, str]) -> Cluster:
        return ChronikCluster(directory, settings)
