"""`chronik cluster add` and `remove`: nodes that join a running cluster and leave it, without losing a replica."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from chronik.cli.cluster.options import DEFAULT_DIRECTORY, DataDir, NodeNumber
from chronik.cli.options import AsJson, example
from chronik.cli.output import counted, print_json, print_line, print_note, progress
from chronik.local_cluster.directory import ClusterDirectory, written
from chronik.local_cluster.growing import add_node, remove_node
from chronik.local_cluster.processes import EXIT_NOT_READY

ADD_EXAMPLE = example("chronik cluster add --data-dir my-cluster")
REMOVE_EXAMPLE = example("chronik cluster remove 4 --move --data-dir my-cluster")


def add(
    observer: Annotated[
        bool, typer.Option("--observer", help="It holds replicas, but has no vote on the cluster's metadata.")
    ] = False,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Add a node to a running cluster; new partitions may be placed on it, those that are there stay where they are."""
    begin = time.monotonic()
    with ClusterDirectory.changing(data_dir) as cluster:
        node, late = add_node(cluster, is_observer=observer, note=print_note)
    seconds = time.monotonic() - begin
    if as_json:
        print_json(
            {
                "added": node.id,
                "address": written(node.address),
                "pid": node.pid(),
                "voter": not observer,
                "ready": late is None,
                "seconds": round(seconds, 3),
            }
        )
    else:
        role = "without a vote" if observer else "with a vote"
        word = "ready" if late is None else "added"
        print_line(f"{word}: node {node.id} at {written(node.address)}, {role}, in {seconds:.1f} s")
    if late is not None:
        print_note(f"node {node.id} runs, but {late}")
        raise typer.Exit(EXIT_NOT_READY)


def remove(
    number: NodeNumber,
    move: Annotated[
        bool, typer.Option("--move", help="First move the partitions that it holds to the other nodes.")
    ] = False,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Take a node out of a cluster: its partitions move to the others, it loses its vote, stops, and is forgotten."""
    with ClusterDirectory.changing(data_dir) as cluster:
        node = cluster.node(number)
        moved = remove_node(
            cluster,
            node,
            is_moved=move,
            note=print_note,
            progress=lambda total: progress("Moving", total, unit="partitions", is_wanted=not as_json),
        )
    if as_json:
        print_json({"removed": number, "moved_partitions": moved, "data_dir": str(node.directory)})
    else:
        print_line(f"removed node {number}, {counted(moved, 'partition')} moved; its files stay in {node.directory}")
