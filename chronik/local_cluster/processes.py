"""The nodes of a local cluster as processes: launched together, awaited, stopped, and what one that died has said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from chronik.client.cluster_view import ClusterView, view_of
from chronik.client.errors import ChronikError
from chronik.client.request import NoAnswer
from chronik.client.security import Security
from chronik.local_cluster.directory import CONFIG, Address, ClusterDirectory, ClusterNode, address_or_none, written
from chronik.local_cluster.files import as_user, in_words, owner_of_process
from chronik.local_cluster.secured import ADMIN
from chronik.shell.interrupts import Interrupts
from chronik.shell.ports import is_taken

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.02
ANSWER_TIMEOUT_S = 2.0
EXIT_NOT_READY = 1

SERVE = ("chronik", "serve")


class NotReady(ChronikError):
    """The nodes run, but they are not one cluster in which everything is led, and the time is over."""


class Launched:
    """A node that this process has started, by a Python module and its arguments. Raises ChronikError."""

    def __init__(self, node: ClusterNode, module: Sequence[str] = SERVE) -> None:
        self.node = node
        command = [sys.executable, "-m", *module, "--config", str(node.config_path)]
        if node.security.is_there:  # it makes its administrator when there are no users; only the file's name is seen
            command += ["--add-user", f"{ADMIN}=@{node.security.password_file}"]
        with in_words(node.directory):
            node.note_launch()
        with in_words(node.log_path):
            descriptor = os.open(node.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        with open(descriptor, "ab") as log:
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

    def ask_to_end(self) -> None:
        if self.ended() is None:
            self._process.terminate()

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
    """Before anything is started. Raises ChronikError."""
    for node in nodes:
        if is_taken(*node.address):
            host, port = node.address
            raise ChronikError(
                f"port {port} on {host}, of node {node.id}, is in use",
                f"stop what uses it, or change its port in every {CONFIG} in {node.directory.parent}",
            )


def launch(
    cluster: ClusterDirectory,
    nodes: Iterable[ClusterNode],
    interrupts: Interrupts,
    modules: Mapping[int, Sequence[str]] | None = None,
    *,
    is_kept_when_late: bool = False,
    timeout_s: float = READY_TIMEOUT_S,
) -> dict[int, Launched]:
    """All at once; when one ends by itself, or Ctrl-C comes, they are ended again, and so they are when the
    cluster is not ready in time, unless they are to be kept. `modules` are for nodes that are not to be run as
    `chronik serve` does. Raises ChronikError, KeyboardInterrupt."""
    launched: dict[int, Launched] = {}
    try:
        for node in nodes:
            launched[node.id] = Launched(node, (modules or {}).get(node.id, SERVE))
        wait_until_ready(cluster, launched, interrupts, timeout_s)
    except BaseException as problem:
        if not (is_kept_when_late and isinstance(problem, NotReady)):
            for each in launched.values():
                each.ask_to_end()
            for each in launched.values():
                each.end()
        raise
    return launched


def wait_until_ready(
    cluster: ClusterDirectory, launched: Mapping[int, Launched], interrupts: Interrupts, timeout_s: float
) -> None:
    """Until every node that runs names all that run, a controller, and a leader for each partition that they hold.
    Raises ChronikError, NotReady, KeyboardInterrupt."""
    deadline = time.monotonic() + timeout_s
    known = {node_id: address_or_none(cluster.nodes[node_id]) for node_id in sorted({*launched, *cluster.alive()})}
    addresses = {node_id: address for node_id, address in known.items() if address is not None}
    waiting, security = list(addresses), cluster.admin()
    while waiting:
        for each in launched.values():
            if each.ended() is not None:
                raise ChronikError(
                    f"node {each.node.id} did not start: {each.why_it_ended()}", f"its log is {each.node.log_path}"
                )
        # Signals are looked for here, and break off nothing by themselves: no process is lost between its start and
        # the line that remembers it.
        if interrupts.is_ending:
            raise KeyboardInterrupt
        if time.monotonic() > deadline:
            raise NotReady(
                f"the cluster is not ready after {timeout_s:.0f} s: {_hindrance(waiting[0], addresses, security)}",
                f"the nodes' logs are in {cluster.path}",
            )
        waiting = [each for each in waiting if not _is_whole(addresses[each], list(addresses), security)]
        if waiting:
            time.sleep(POLL_S)


def _is_whole(address: Address, awaited: list[int], security: Security | None) -> bool:
    """Whether the node there sees all of these as one cluster, in which what they hold is led."""
    view = _view_at(address, security)
    return view is not None and view.is_whole(awaited)


def view_from(node: ClusterNode) -> ClusterView | None:
    """The cluster as this node sees it, None when it does not answer, or where it listens is not known."""
    address = address_or_none(node)
    security = node.security.admin() if node.security.is_there else None
    return None if address is None else _view_at(address, security)


def _view_at(address: Address, security: Security | None) -> ClusterView | None:
    try:
        return view_of(address, ANSWER_TIMEOUT_S, security=security)
    except NoAnswer:
        return None


def _hindrance(node_id: int, addresses: Mapping[int, Address], security: Security | None) -> str:
    view = _view_at(addresses[node_id], security)
    if view is None:
        return f"node {node_id} does not answer at {written(addresses[node_id])}"
    if missing := [each for each in addresses if each not in view.addresses]:
        return f"node {node_id} does not see {', '.join(f'node {each}' for each in missing)}"
    if leaderless := view.to_be_led(list(addresses)):
        topic, partition = leaderless[0]
        noun = "partition" if len(leaderless) == 1 else "partitions"
        return f"{len(leaderless):,} {noun} without a leader, {topic}:{partition} among them"
    return f"node {node_id} knows no controller"


def send(node: ClusterNode, number: signal.Signals) -> bool:
    """Signal a node that runs; False when it does not. Raises ChronikError."""
    pid = node.pid()
    if pid is None:
        return False
    try:
        os.kill(pid, number)
        if number == signal.SIGTERM:
            os.kill(pid, signal.SIGCONT)  # one that is paused would not hear it
    except ProcessLookupError:
        pass  # it ended just now
    except PermissionError:
        owner = owner_of_process(pid)
        whose = "another user" if owner is None else f"user {owner}"
        raise ChronikError(f"node {node.id}, process {pid}, belongs to {whose}", as_user(owner)) from None
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
