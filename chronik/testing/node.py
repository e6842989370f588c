"""A node in a child process, to be used, killed and restarted by tests."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chronik.client.security import PLAIN_CONNECTION, Security
from chronik.local_cluster.authority import write_secret
from chronik.local_cluster.config import as_toml, has_secrets
from chronik.local_cluster.secured import ADMIN, CLIENTS, FOLDER, NODES, ClusterSecurity
from chronik.shell.ports import free_ports

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.005
_READY = re.compile(r"ready: Kafka clients at (\S+):(\d+)(?:, metrics at (https?://\S+)/metrics)?")

# Tests do not want to wait for members that never come.
TEST_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


class NodeDied(Exception):
    """The node did not come up; the message has what it printed."""


class RunningNode:
    """A node that runs in a child process."""

    def __init__(self, data_dir: str, settings: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self.settings = dict(settings)
        self.host = "127.0.0.1"
        self.port = 0
        self.http_url: str | None = None
        self.more_listeners = ""  # beside the one at `port`: `,NODES://127.0.0.1:9093`
        self.secured: ClusterSecurity | None = None  # its keys and its administrator, if it is a secured one
        self.launched_by: list[str] = []  # words before the command, such as ["ip", "netns", "exec", "name"]
        self._process: subprocess.Popen[bytes] | None = None
        self._is_asked_to_stop = False
        self._launched_at = 0  # where in its log file its current life begins

    @property
    def bootstrap(self) -> str:
        """The address for clients, HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def security(self) -> Security:
        """How its administrator is let in."""
        return PLAIN_CONNECTION if self.secured is None else self.secured.admin()

    def for_confluent(self) -> dict[str, Any]:
        """What confluent-kafka needs to reach it, as its administrator where it is a secured one."""
        return {"bootstrap.servers": self.bootstrap, **self.security.for_librdkafka()}

    def for_kafka_python(self) -> dict[str, Any]:
        """The same for kafka-python."""
        return {"bootstrap_servers": self.bootstrap.split(","), **self.security.for_kafka_python()}

    def for_aiokafka(self) -> dict[str, Any]:
        """The same for aiokafka."""
        return {"bootstrap_servers": self.bootstrap.split(","), **self.security.for_aiokafka()}

    @property
    def command_config(self) -> str | None:
        """A file of Kafka's client properties, for Kafka's tools and `chronik --command-config`."""
        return None if self.secured is None else str(self.secured.properties)

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def log_path(self) -> str:
        """Where the node's log lines go."""
        return os.path.join(self.data_dir, "node.log")

    @property
    def is_running(self) -> bool:
        """Whether its process is there, be it ready or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when it is ready. After a stop or kill it comes back on the same port."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start, and return at once."""
        assert not self.is_running, "the node is running"
        os.makedirs(self.data_dir, exist_ok=True)
        command = [
            *self.launched_by,
            sys.executable,
            "-m",
            "chronik",
            "serve",
            "--data-dir",
            self.data_dir,
            "--listen",
            f"{self._clients}{self.host}:{self.port}{self.more_listeners}",
        ]
        if self.secured is not None:
            command += ["--add-user", f"{ADMIN}=@{self.secured.password_file}"]
        command += ["--http", "127.0.0.1:0"]
        secrets = {key: value for key, value in self.settings.items() if has_secrets({key: value})}
        if secrets:  # others see a command line
            config = Path(self.data_dir, "secrets.toml")
            write_secret(config, as_toml(1, secrets))
            command += ["--config", str(config)]
        for key, value in self.settings.items():
            if key not in secrets:
                command += ["--set", f"{key}={value}"]
        self._is_asked_to_stop = False
        with open(self.log_path, "ab") as printed:
            self._launched_at = printed.tell()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=printed
            )

    @property
    def _clients(self) -> str:
        return "" if self.secured is None else f"{CLIENTS}://"

    def be_secured(self, secured: ClusterSecurity, node_id: int) -> None:
        """Before it is launched: clients log in over TLS, and other nodes come by a listener of their own."""
        self.secured = secured
        self.settings = {**secured.node_settings(node_id), **self.settings}
        self.more_listeners = f",{NODES}://{self.host}:{free_ports(1)[0]}"

    @property
    def address_for_nodes(self) -> str:
        return self.bootstrap if self.secured is None else self.more_listeners.rpartition("/")[2]

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Until it says that clients are served. Raises NodeDied, with what it printed since it was launched."""
        deadline = time.monotonic() + timeout_s
        before = self._launched_at
        while time.monotonic() < deadline and self._process is not None:
            has_ended = self._process.poll() is not None
            ready = _READY.search(self._printed(before))
            if ready is not None:
                self.port = int(ready[2])
                self.http_url = ready[3]
                return
            if has_ended:
                break
            time.sleep(POLL_S)
        self.kill()
        raise NodeDied(f"the node did not start:\n{self._printed(before)}")

    def _printed(self, before: int) -> str:
        with open(self.log_path, "rb") as printed:
            printed.seek(before)
            return printed.read().decode(errors="replace")

    def stop(self) -> int:
        """Stop in order (SIGTERM). Returns the exit code."""
        if self._process is None:
            return 0
        self.ask_to_stop()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None
        return code

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting for the end; `stop` waits for it."""
        # Only once: a second signal may meet a process that listens no longer, and would end it with another code.
        if self._process is not None and not self._is_asked_to_stop:
            self._is_asked_to_stop = True
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)  # a paused process would not hear it

    def pause(self) -> None:
        """SIGSTOP: it hangs, and its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on, and does not know that time has passed."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: as if the machine had lost power, but for the page cache."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()


@contextlib.contextmanager
def node(
    config: Mapping[str, str] | None = None, data_dir: str | None = None, port: int = 0, *, secure: bool = False
) -> Iterator[RunningNode]:
    """A node for the length of a `with` block. `config` holds settings under Kafka's names.

    A secure one speaks TLS, wants its clients to log in (SCRAM), and has ACLs: only its administrator may do anything
    at first, and `for_confluent()`, `for_kafka_python()` and `for_aiokafka()` let a client in as that. It needs the
    package cryptography (`chronik[secure]`).
    """
    directory = data_dir or tempfile.mkdtemp(prefix="chronik-test-")
    running = RunningNode(directory, {**TEST_SETTINGS, **(config or {})})
    running.port = port
    try:
        if secure:
            made = ClusterSecurity(Path(directory, FOLDER))
            made.make([1])
            running.be_secured(made, 1)
        running.start()
        yield running
        running.stop()
    finally:
        running.kill()
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
