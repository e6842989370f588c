"""`chronik cluster status`: which nodes run, where, and how they see the cluster."""

from __future__ import annotations

from typing import Any

from chronik.cli.cluster.options import DEFAULT_DIRECTORY, DataDir
from chronik.cli.options import AsJson, example
from chronik.cli.output import counted, print_json, print_line, print_table
from chronik.client.cluster_view import ClusterView
from chronik.local_cluster import processes
from chronik.local_cluster.directory import ClusterDirectory, ClusterNode, address_or_none, written

EXAMPLE = example("chronik cluster status --data-dir my-cluster", "chronik cluster status --json")


def status(data_dir: DataDir = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Show the nodes of a cluster on this machine: alive or not, address, process, and which node is the controller."""
    cluster = ClusterDirectory.open(data_dir)
    alive = cluster.alive()
    views = {node_id: processes.view_from(cluster.nodes[node_id]) for node_id in alive}
    answered = [view for view in views.values() if view is not None]
    # A node that is cut off may still believe in an old controller: most nodes seen is nearest to the truth.
    view = max(answered, key=lambda each: len(each.addresses), default=None)
    is_ready = len(alive) == len(cluster.nodes) and all(
        each is not None and each.is_whole(cluster.nodes) and not each.leaderless for each in views.values()
    )
    rows = [_row(node, alive.get(node.id), views.get(node.id), view) for node in cluster.nodes.values()]
    if as_json:
        print_json(
            {
                "nodes": rows,
                "cluster_id": cluster.cluster_id,
                "controller": None if view is None else view.controller_id,
                "bootstrap": cluster.bootstrap,
                "ready": is_ready,
                "partitions_without_leader": None if view is None else len(view.leaderless),
                "data_dir": str(cluster.path),
                "command_config": str(cluster.security.properties) if cluster.security.is_there else None,
            }
        )
        return
    columns = ["node", "state", "address", "process", "http", "log"]
    print_table(columns, [_cells(row) for row in rows])
    print_line(_summary(cluster, view, is_ready))
    if cluster.security.is_there:
        print_line(f"secured: --command-config {cluster.security.properties} lets you in as its administrator")
    for row in rows:
        if row["problem"] is not None:
            print_line(f"node {row['id']} cannot be started again: {row['problem']}")


def _row(node: ClusterNode, pid: int | None, own: ClusterView | None, view: ClusterView | None) -> dict[str, Any]:
    is_controller = view is not None and view.controller_id == node.id
    where = address_or_none(node)
    return {
        "id": node.id,
        "pid": pid,
        "address": None if where is None else written(where),
        "alive": pid is not None,
        "answers": own is not None,
        "in_cluster": pid is not None and view is not None and node.id in view.addresses,
        "role": "controller" if is_controller and pid is not None else "broker",
        "http": None if where is None else node.http,
        "data_dir": None if where is None else node.data_dir,
        "config": str(node.config_path),
        "log": str(node.log_path),
        "problem": node.problem(),
    }


def _cells(row: dict[str, Any]) -> list[object]:
    if not row["alive"]:
        state = "dead"
    elif not row["answers"]:
        state = "silent"
    elif not row["in_cluster"]:
        state = "apart"
    else:
        state = row["role"]
    return [str(row["id"]), state, row["address"], str(row["pid"] or "-"), row["http"], row["log"]]


def _summary(cluster: ClusterDirectory, view: ClusterView | None, is_ready: bool) -> str:
    if view is None:
        return f"cluster {cluster.cluster_id}: no node answers"
    words = "ready" if is_ready else "not ready"
    if view.leaderless:
        words += f", {counted(len(view.leaderless), 'partition')} without leader"
    return f"cluster {cluster.cluster_id}: {words}"
