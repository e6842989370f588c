"""The real command line in its own process, against a real node: ours, or Apache Kafka with CHRONIK_TEST_PEER=kafka."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chronik.testing import RunningNode, node
from chronik.wire.versions import API_VERSIONS
from tests.cli.forked import run_forked

COMMAND = (sys.executable, "-m", "chronik")
COMMAND_SECONDS_MAX = 60


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output must be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Chronik:
    """Runs `chronik` as a user would, with the node's address in the environment."""

    bootstrap: str

    def run(self, *arguments: str, stdin: str | bytes = b"") -> Result:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        with tempfile.TemporaryDirectory() as folder:
            return Result(*run_forked(arguments, content, self.environment, Path(folder), COMMAND_SECONDS_MAX))

    def run_process(self, *arguments: str) -> Result:
        """The same as a program of its own, started from nothing."""
        done = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, timeout=COMMAND_SECONDS_MAX, env=self.environment, check=False
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *arguments: str, stdin: str | bytes = b"") -> Result:
        """A command that must succeed, and has nothing to say on standard error."""
        result = self.run(*arguments, stdin=stdin)
        assert (result.code, result.err) == (0, ""), result
        return result

    def refused(self, *arguments: str, stdin: str | bytes = b"") -> str:
        """The error of a command that must fail as bad input does: exit code 2, one line, no traceback, no output."""
        result = self.run(*arguments, stdin=stdin)
        assert result.code == 2, result
        assert "Traceback" not in result.err
        assert result.out == ""
        assert result.err.startswith("error: ")
        assert result.err.count("\n") == 1, result.err
        return result.err.removeprefix("error: ").strip()

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on until it is told to stop."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([*COMMAND, *arguments], env=self.environment, **pipes) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def environment(self) -> dict[str, str]:
        """As on a machine where nothing asked Python to print at once."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        return inherited | {"CHRONIK_BOOTSTRAP": self.bootstrap, "COLUMNS": "100"}


@dataclass(frozen=True)
class Secured(Chronik):
    """With the administrator's file in the environment."""

    command_config: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"CHRONIK_COMMAND_CONFIG": self.command_config}


@pytest.fixture(scope="session")
def secured_node() -> Iterator[RunningNode]:
    """With TLS, logins and ACLs."""
    with node(secure=True) as made:
        yield made


@pytest.fixture
def admin(secured_node: RunningNode) -> Secured:
    assert secured_node.command_config is not None
    return Secured(secured_node.bootstrap, secured_node.command_config)


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        if os.environ.get("CHRONIK_TEST_PEER") == "kafka":
            from tests.clients.apache_kafka import apache_kafka
            from tests.clients.jvm import jars_of

            config = {"group.initial.rebalance.delay.ms": "0"}
            yield stack.enter_context(apache_kafka(jars_of("tools"), tmp_path_factory.mktemp("kafka"), config))
        else:
            yield stack.enter_context(node()).bootstrap


@pytest.fixture
def chronik(bootstrap: str) -> Chronik:
    return Chronik(bootstrap)


@pytest.fixture
def other_kafka() -> Iterator[Chronik]:
    """Tells what it speaks, and hangs up on a request that it does not know, as every Kafka does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    frame = connection.recv(4096)
                    if frame[4:6] == API_VERSIONS.to_bytes(2, "big"):
                        connection.sendall(spoken_by_another(frame[8:12]))

        thread = threading.Thread(target=serve)
        thread.start()
        yield Chronik(f"127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def spoken_by_another(correlation_id: bytes) -> bytes:
    """The answer of version 3 to ApiVersions: Metadata up to 12, and nothing else."""
    body = correlation_id + struct.pack(">hBhhhBiB", 0, 2, 3, 0, 12, 0, 0, 0)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for a topic or a group."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(chronik: Chronik, name: str) -> Callable[..., str]:
    def make(*options: str) -> str:
        chronik.ok("topic", "create", name, *options)
        return name

    return make


def run_at_terminal(chronik: Chronik, *arguments: str, typed: str) -> Result:
    """A command of which a person answers a question, while its output goes to a script."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, f"{typed}\n".encode())
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdin=terminal,
            capture_output=True,
            timeout=COMMAND_SECONDS_MAX,
            env=chronik.environment,
            check=False,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def interrupt(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> tuple[int, str, str]:
    """Ends a running command as Ctrl-C does; how it ended and what it had printed."""
    process.send_signal(number)
    out, err = process.communicate(timeout=COMMAND_SECONDS_MAX)
    return process.returncode, out.decode(), err.decode()
