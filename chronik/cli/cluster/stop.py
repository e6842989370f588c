"""`chronik cluster stop`, `kill` and `restart`: nodes end in order, or at once, and come back."""

from __future__ import annotations

import signal
import time
from typing import Annotated

import typer

from chronik.cli.cluster.options import DEFAULT_DIRECTORY, DataDir, NodeNumber
from chronik.cli.options import AsJson, example
from chronik.cli.output import print_json, print_line, print_note
from chronik.client.errors import ChronikError
from chronik.local_cluster import processes
from chronik.local_cluster.directory import ClusterDirectory, ClusterNode
from chronik.local_cluster.processes import EXIT_NOT_READY, NotReady
from chronik.shell.interrupts import Interrupts

STOP_EXAMPLE = example("chronik cluster stop --data-dir my-cluster")
KILL_EXAMPLE = example("chronik cluster kill 2 --data-dir my-cluster")
RESTART_EXAMPLE = example("chronik cluster restart 2 --data-dir my-cluster")
KILL_TIMEOUT_S = 5.0
EXIT_NOT_STOPPED = 1

Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="S", help="How long to wait for nodes to end in order.")
]


def stop(
    data_dir: DataDir = DEFAULT_DIRECTORY, timeout: Timeout = processes.STOP_TIMEOUT_S, as_json: AsJson = False
) -> None:
    """Stop all nodes in order (SIGTERM). The same cluster starts again with `chronik cluster start`."""
    cluster = ClusterDirectory.open(data_dir)
    stopped, left = _stopped(cluster, timeout, is_quiet=as_json)
    if not stopped and not left:
        raise ChronikError(
            f"the cluster in {cluster.path} is not running",
            f"start it with `chronik cluster start --data-dir {data_dir}`",
        )
    if as_json:
        print_json({"stopped": stopped, "still_running": left})
    if left:
        raise typer.Exit(EXIT_NOT_STOPPED)


def stop_all(cluster: ClusterDirectory) -> bool:
    """For Ctrl-C on a cluster in the foreground. Whether all ended."""
    _, left = _stopped(cluster, processes.STOP_TIMEOUT_S, is_quiet=False)
    return not left


def _stopped(cluster: ClusterDirectory, timeout_s: float, *, is_quiet: bool) -> tuple[list[int], list[int]]:
    """Signal all, wait, say which ended; the nodes that did, and those that did not. Raises ChronikError when none
    could be signalled."""
    notified, refused = _signalled(cluster)

    def on_gone(node: ClusterNode) -> None:
        if not is_quiet:
            print_line(f"node {node.id} stopped")

    left = processes.wait_until_gone(notified, timeout_s, on_gone)
    for node in left:
        print_note(
            f"node {node.id} would not stop in {timeout_s:g} s; see {node.log_path}, or end it with "
            f"`chronik cluster kill {node.id}`"
        )
    stopped = [node.id for node in notified if node not in left]
    return stopped, sorted(node.id for node in [*refused, *left])


def _signalled(cluster: ClusterDirectory) -> tuple[list[ClusterNode], list[ClusterNode]]:
    """Those that have been signalled, and those that we may not signal. All at once: none has to hand its partitions
    to one that is about to go as well."""
    notified: list[ClusterNode] = []
    refusals: dict[int, ChronikError] = {}
    for node in cluster.nodes.values():
        try:
            if processes.send(node, signal.SIGTERM):
                notified.append(node)
        except ChronikError as problem:
            refusals[node.id] = problem
    if refusals and not notified:
        raise next(iter(refusals.values()))
    for refusal in refusals.values():
        print_note(str(refusal))
    return notified, [cluster.nodes[node_id] for node_id in refusals]


def kill(number: NodeNumber, data_dir: DataDir = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Kill one node (SIGKILL), as if its machine had lost power but for the page cache."""
    node = ClusterDirectory.open(data_dir).node(number)
    pid = node.pid()
    if pid is None or not processes.send(node, signal.SIGKILL):
        raise ChronikError(f"node {number} is not running", f"start it with `chronik cluster restart {number}`")
    if processes.wait_until_gone([node], KILL_TIMEOUT_S):
        raise ChronikError(f"node {number}, process {pid}, did not end", "see what it waits for: its disk may hang")
    if as_json:
        print_json({"killed": number, "pid": pid})
    else:
        print_line(f"killed node {number} (process {pid})")


def restart(
    number: NodeNumber,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    timeout: Timeout = processes.STOP_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Stop one node in order, if it runs, and start it again; returns when the cluster is ready."""
    begin = time.monotonic()
    cluster = ClusterDirectory.open(data_dir)
    node = cluster.node(number)
    _ = node.config  # one that cannot be started again is not stopped
    was_running = processes.send(node, signal.SIGTERM)
    if was_running and processes.wait_until_gone([node], timeout):
        raise ChronikError(
            f"node {number} would not stop in {timeout:g} s", f"see {node.log_path}, or `chronik cluster kill {number}`"
        )
    processes.refuse_taken_ports([node])
    late = _launched_again(cluster, node)
    seconds = time.monotonic() - begin
    if as_json:
        print_json(
            {
                "restarted": number,
                "pid": node.pid(),
                "was_running": was_running,
                "ready": late is None,
                "seconds": round(seconds, 3),
            }
        )
    elif late is None:
        print_line(f"ready: node {number} {'restarted' if was_running else 'started'} in {seconds:.1f} s")
    if late is not None:
        print_note(f"node {number} runs, but {late}")
        raise typer.Exit(EXIT_NOT_READY)


def _launched_again(cluster: ClusterDirectory, node: ClusterNode) -> NotReady | None:
    """Why the cluster is not ready, if it is not. The node runs on all the same: others that are dead may be what is
    missing, and they can only be brought back one by one."""
    with Interrupts().listening() as interrupts:
        try:
            processes.launch(cluster, [node], interrupts, is_kept_when_late=True)
        except NotReady as late:
            return late
    return None
