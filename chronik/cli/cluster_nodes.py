"""The nodes of a local cluster as processes: launched together, awaited, stopped, and what one that died has said."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from chronik.cli.cluster_directory import CONFIG, ClusterDirectory, ClusterNode, written
from chronik.cli.errors import CliError
from chronik.shell.asking import NoAnswer
from chronik.shell.cluster_view import ClusterView, view_of
from chronik.shell.ports import is_taken

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.02
ANSWER_TIMEOUT_S = 2.0


SERVE = ("chronik", "serve")


class Launched:
    """A node that this process has started, by a Python module and its arguments."""

    def __init__(self, node: ClusterNode, module: Sequence[str] = SERVE) -> None:
        self.node = node
        command = [sys.executable, "-m", *module, "--config", str(node.config_path)]
        with open(node.log_path, "ab") as log:
            self._printed_from = log.tell()
            # A session of its own: Ctrl-C in this terminal must not reach it, for nodes are stopped in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def ended(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def why_it_ended(self) -> str:
        """The error it printed, or its last line."""
        with open(self.node.log_path, "rb") as log:
            log.seek(self._printed_from)
            lines = log.read().decode(errors="replace").splitlines()
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        code = self._process.returncode
        how = f"ended with code {code}" if code is None or code >= 0 else f"killed by {signal.Signals(-code).name}"
        return errors[-1] if errors else (lines[-1] if lines else how)

    def end(self) -> None:
        """It is not wanted after all."""
        if self.ended() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def refuse_taken_ports(nodes: Iterable[ClusterNode]) -> None:
    """Before anything is started. Raises CliError."""
    for node in nodes:
        if is_taken(*node.address):
            host, port = node.address
            raise CliError(
                f"port {port} on {host}, of node {node.id}, is in use",
                f"stop what uses it, or change its port in every {CONFIG} in {node.directory.parent}",
            )


def launch(
    cluster: ClusterDirectory, nodes: Iterable[ClusterNode], modules: Mapping[int, Sequence[str]] | None = None
) -> dict[int, Launched]:
    """All at once; when the cluster does not become ready they are ended again. `modules` are for nodes that are not
    to be run as `chronik serve` does. Raises CliError."""
    launched = {node.id: Launched(node, (modules or {}).get(node.id, SERVE)) for node in nodes}
    try:
        wait_until_ready(cluster, launched)
    except BaseException:  # Ctrl-C too: what was begun is not left half done
        for each in launched.values():
            each.end()
        raise
    return launched


def wait_until_ready(cluster: ClusterDirectory, launched: Mapping[int, Launched]) -> None:
    """Until every node that runs names all that run, a controller, and a leader for each partition. Raises CliError."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    awaited = sorted({*launched, *cluster.alive()})
    waiting = list(awaited)
    while waiting:
        for each in launched.values():
            if each.ended() is not None:
                raise CliError(
                    f"node {each.node.id} did not start: {each.why_it_ended()}", f"its log is {each.node.log_path}"
                )
        if time.monotonic() > deadline:
            raise CliError(
                f"the cluster is not ready after {READY_TIMEOUT_S:.0f} s: {_hindrance(cluster, waiting[0], awaited)}",
                f"the nodes' logs are in {cluster.path}",
            )
        waiting = [each for each in waiting if not is_whole(cluster, each, awaited)]
        if waiting:
            time.sleep(POLL_S)


def is_whole(cluster: ClusterDirectory, node_id: int, awaited: list[int]) -> bool:
    """Whether the node sees all of these as one cluster, in which every partition is led."""
    view = view_from(cluster.nodes[node_id])
    return view is not None and view.is_whole(awaited)


def view_from(node: ClusterNode) -> ClusterView | None:
    """The cluster as this node sees it, None when it does not answer."""
    try:
        return view_of(node.address, ANSWER_TIMEOUT_S)
    except NoAnswer:
        return None


def _hindrance(cluster: ClusterDirectory, node_id: int, awaited: list[int]) -> str:
    view = view_from(cluster.nodes[node_id])
    if view is None:
        return f"node {node_id} does not answer at {written(cluster.nodes[node_id].address)}"
    if missing := [each for each in awaited if each not in view.addresses]:
        return f"node {node_id} does not see {', '.join(f'node {each}' for each in missing)}"
    if view.leaderless:
        topic, partition = view.leaderless[0]
        return f"{len(view.leaderless)} partitions have no leader, {topic}:{partition} among them"
    return f"node {node_id} knows no controller"


def send(node: ClusterNode, number: signal.Signals) -> bool:
    """Signal a node that runs; False when it does not."""
    pid = node.pid()
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):  # it ended just now
        os.kill(pid, number)
        if number == signal.SIGTERM:
            os.kill(pid, signal.SIGCONT)  # one that is paused would not hear it
    return True


def wait_until_gone(
    nodes: Iterable[ClusterNode], timeout_s: float, on_gone: Callable[[ClusterNode], None] = lambda node: None
) -> list[ClusterNode]:
    """Until none of them runs; returns those that still do when the time is over."""
    deadline = time.monotonic() + timeout_s
    left = list(nodes)
    while left:
        for node in [each for each in left if each.pid() is None]:
            left.remove(node)
            on_gone(node)
        if not left or time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return left
