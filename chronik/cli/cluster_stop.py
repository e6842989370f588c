"""`chronik cluster stop`, `kill` and `restart`: nodes end in order, or at once, and come back."""

from __future__ import annotations

import signal
import time
from typing import Annotated

import typer

from chronik.cli import cluster_nodes
from chronik.cli.cluster_directory import ClusterDirectory, ClusterNode
from chronik.cli.cluster_options import DEFAULT_DIRECTORY, DataDir, NodeNumber
from chronik.cli.errors import CliError
from chronik.cli.options import AsJson, example
from chronik.cli.output import print_json, print_line, print_note

STOP_EXAMPLE = example("chronik cluster stop --data-dir my-cluster")
KILL_EXAMPLE = example("chronik cluster kill 2 --data-dir my-cluster")
RESTART_EXAMPLE = example("chronik cluster restart 2 --data-dir my-cluster")
KILL_TIMEOUT_S = 5.0
EXIT_NOT_STOPPED = 1

Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="S", help="How long to wait for nodes to end in order.")
]


def stop(
    data_dir: DataDir = DEFAULT_DIRECTORY, timeout: Timeout = cluster_nodes.STOP_TIMEOUT_S, as_json: AsJson = False
) -> None:
    """Stop all nodes in order (SIGTERM). The same cluster starts again with `chronik cluster start`."""
    cluster = ClusterDirectory.open(data_dir)
    alive = cluster.alive()
    if not alive:
        raise CliError(
            f"the cluster in {cluster.path} is not running",
            f"start it with `chronik cluster start --data-dir {data_dir}`",
        )
    left = _stopped(cluster, timeout, is_quiet=as_json)
    if as_json:
        still = [node.id for node in left]
        print_json({"stopped": [node_id for node_id in alive if node_id not in still], "still_running": still})
    if left:
        raise typer.Exit(EXIT_NOT_STOPPED)


def stop_all(cluster: ClusterDirectory) -> bool:
    """For Ctrl-C on a cluster in the foreground. Whether all ended."""
    return not _stopped(cluster, cluster_nodes.STOP_TIMEOUT_S, is_quiet=False)


def _stopped(cluster: ClusterDirectory, timeout_s: float, *, is_quiet: bool) -> list[ClusterNode]:
    """Signal all, wait, say which ended; returns those that did not."""
    # All at once: none has to hand its partitions to one that is about to go as well.
    told = [node for node in cluster.nodes.values() if cluster_nodes.send(node, signal.SIGTERM)]

    def on_gone(node: ClusterNode) -> None:
        if not is_quiet:
            print_line(f"node {node.id} stopped")

    left = cluster_nodes.wait_until_gone(told, timeout_s, on_gone)
    for node in left:
        print_note(
            f"node {node.id} would not stop in {timeout_s:g} s; see {node.log_path}, or end it with "
            f"`chronik cluster kill {node.id}`"
        )
    return left


def kill(number: NodeNumber, data_dir: DataDir = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Kill one node (SIGKILL), as if its machine had lost power but for the page cache."""
    node = ClusterDirectory.open(data_dir).node(number)
    pid = node.pid()
    if pid is None or not cluster_nodes.send(node, signal.SIGKILL):
        raise CliError(f"node {number} is not running", f"start it with `chronik cluster restart {number}`")
    if cluster_nodes.wait_until_gone([node], KILL_TIMEOUT_S):
        raise CliError(f"node {number}, process {pid}, did not end", "see what it waits for: its disk may hang")
    if as_json:
        print_json({"killed": number, "pid": pid})
    else:
        print_line(f"killed node {number} (process {pid})")


def restart(
    number: NodeNumber,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    timeout: Timeout = cluster_nodes.STOP_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Stop one node in order, if it runs, and start it again; returns when the cluster is ready."""
    begin = time.monotonic()
    cluster = ClusterDirectory.open(data_dir)
    node = cluster.node(number)
    was_running = cluster_nodes.send(node, signal.SIGTERM)
    if was_running and cluster_nodes.wait_until_gone([node], timeout):
        raise CliError(
            f"node {number} would not stop in {timeout:g} s", f"see {node.log_path}, or `chronik cluster kill {number}`"
        )
    cluster_nodes.refuse_taken_ports([node])
    cluster_nodes.launch(cluster, [node])
    seconds = time.monotonic() - begin
    if as_json:
        print_json({"restarted": number, "pid": node.pid(), "was_running": was_running, "seconds": round(seconds, 3)})
    else:
        print_line(f"ready: node {number} {'restarted' if was_running else 'started'} in {seconds:.1f} s")
