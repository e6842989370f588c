"""A console beside a cluster that runs in the foreground: a process of its own, which ends with what started it."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress

from chronik.cli.console.command import DEFAULT_PORT
from chronik.shell.ports import free_ports

END_TIMEOUT_S = 5.0


class ConsoleBeside:
    """It is on its way when this exists, and needs about a second; the cluster is not waited with for it."""

    def __init__(self, bootstrap: str, command_config: str | None = None) -> None:
        port = DEFAULT_PORT if _is_free(DEFAULT_PORT) else free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}/"
        command = [sys.executable, "-m", "chronik", "console", "--bootstrap", bootstrap, "--port", str(port)]
        if command_config is not None:
            command += ["--command-config", command_config]
        # A session of its own: Ctrl-C in this terminal is for the cluster, which then ends the console.
        self._process = subprocess.Popen(
            [*command, "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
