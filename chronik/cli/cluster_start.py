"""`chronik cluster start`: makes a cluster of nodes on this machine, or starts the one that is there again."""

from __future__ import annotations

import os
import signal
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from chronik.cli import cluster_nodes
from chronik.cli.cluster_config import checked
from chronik.cli.cluster_directory import ClusterDirectory, ClusterNode
from chronik.cli.cluster_files import held
from chronik.cli.cluster_nodes import Launched
from chronik.cli.cluster_options import DEFAULT_DIRECTORY, DataDir
from chronik.cli.cluster_stop import stop_all
from chronik.cli.connect import parse_addresses
from chronik.cli.errors import CliError
from chronik.cli.interrupts import Interrupts
from chronik.cli.options import AsJson, example
from chronik.cli.output import counted, print_json, print_line, print_note
from chronik.cli.values import parse_pairs
from chronik.shell.ports import free_ports, is_taken

EXAMPLE = example(
    "chronik cluster start",
    "chronik cluster start --nodes 3 --data-dir my-cluster --port 9092 --detach",
    "chronik cluster start --data-dir fast --port 0 --set durability=os --set num.partitions=3",
)
HOST = "127.0.0.1"
NODES_DEFAULT, PORT_DEFAULT, HTTP_PORT_DEFAULT = 3, 9092, 9644
LOOK_EVERY_S = 0.2
# What this command decides itself, and the option that has a say in it.
OWN_SETTINGS: Mapping[str, str] = {
    "node.id": "nodes are numbered from 1",
    "broker.id": "nodes are numbered from 1",
    "listeners": "say --port",
    "advertised.listeners": "say --advertise",
    "log.dirs": "say --data-dir",
    "log.dir": "say --data-dir",
    "http.address": "it is in each node's config file",
    "controller.quorum.voters": "say --nodes",
    "controller.quorum.bootstrap.servers": "say --nodes",
}


class Wish(NamedTuple):
    """What was asked for; None where nothing was said."""

    nodes: int | None
    port: int | None
    settings: dict[str, str]
    advertise: str | None


def start(
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=99, metavar="N", help="How many.", show_default="3")
    ] = None,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_000,
            metavar="P",
            help="Node i listens on P+i-1; 0 for free ones.",
            show_default="9092",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when the cluster is ready, and let it run.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of every node; repeat for more."),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise", metavar="HOST:PORT", help="The one address that clients are told, as behind a tunnel."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a cluster on this machine, one process a node. A directory that has one starts the same cluster again."""
    begin = time.monotonic()
    wish = Wish(nodes, port, parse_pairs("--set", set_ or []), advertise)
    interrupts = Interrupts()
    interrupts.listen()  # from before the first node is started: whoever ends this does not want nodes left over
    with held(data_dir):
        cluster = _made_or_found(data_dir, wish)
        launched = cluster_nodes.launch(cluster, cluster.nodes.values(), interrupts)
    seconds = time.monotonic() - begin
    if detach:
        _say_ready(cluster, seconds, data_dir, as_json)
        return
    try:
        _say_ready(cluster, seconds, data_dir, as_json)
        code = _stay(cluster, launched, data_dir, interrupts)
    except BaseException:  # a second Ctrl-C, or a terminal that is gone: they must not run on without it
        for each in launched.values():
            each.ask_to_end()
        raise
    raise typer.Exit(code)


def _made_or_found(data_dir: str, wish: Wish) -> ClusterDirectory:
    """A cluster of which no node runs. Raises CliError."""
    cluster = ClusterDirectory.find(data_dir)
    if cluster is None:
        return make(data_dir, wish)
    _refuse_other_wishes(cluster, wish)
    _refuse_running(cluster)
    cluster_nodes.refuse_taken_ports(cluster.nodes.values())
    return cluster


def make(data_dir: str, wish: Wish) -> ClusterDirectory:
    """The config files of a new cluster. Everything is checked before anything is written."""
    for key, hint in OWN_SETTINGS.items():
        if key in wish.settings:
            raise CliError(f"--set {key} is for `chronik serve`; a cluster decides it itself", hint)
    count = NODES_DEFAULT if wish.nodes is None else wish.nodes
    ports = _ports(PORT_DEFAULT if wish.port is None else wish.port, count)
    http_ports = free_ports(count, HOST) if wish.port == 0 else _http_ports(count)
    settings: dict[str, str] = {
        "controller.quorum.voters": ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(ports, 1)),
        "default.replication.factor": str(min(3, count)),
        "min.insync.replicas": "2" if count >= 3 else "1",
        **wish.settings,
    }
    if wish.advertise is not None:
        parse_addresses(wish.advertise)
        settings["advertised.listeners"] = wish.advertise
    cluster_id = settings.pop("cluster.id", None) or urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    cluster = ClusterDirectory(Path(os.path.abspath(data_dir)), cluster_id)
    own = [{"listeners": f"{HOST}:{p}", "http.address": f"{HOST}:{h}"} for p, h in zip(ports, http_ports, strict=True)]
    checked({"node.id": "1", "cluster.id": cluster_id, **own[0], **settings})
    for number, listening in enumerate(own, 1):
        cluster.new_node(number, {**listening, **settings})
    cluster.save()
    return cluster


def _ports(port: int, count: int) -> list[int]:
    if port == 0:
        return free_ports(count, HOST)
    wanted = list(range(port, port + count))
    for each in wanted:
        if is_taken(HOST, each):
            raise CliError(f"port {each} on {HOST} is in use", "stop what uses it, or give another --port, or --port 0")
    return wanted


def _http_ports(count: int) -> list[int]:
    """The usual ones, else free ones: another cluster on this machine is no reason not to start."""
    usual = list(range(HTTP_PORT_DEFAULT, HTTP_PORT_DEFAULT + count))
    return free_ports(count, HOST) if any(is_taken(HOST, each) for each in usual) else usual


def _refuse_other_wishes(cluster: ClusterDirectory, wish: Wish) -> None:
    """A cluster that is there is started as it is; what was asked must not be passed over in silence."""
    count = len(cluster.nodes)
    if wish.nodes not in (None, count):
        raise CliError(
            f"the cluster in {cluster.path} has {counted(count, 'node')}, not {wish.nodes}",
            "leave out --nodes, use `chronik cluster add` or `remove`, or give another --data-dir",
        )
    first = min(cluster.nodes.values(), key=lambda node: node.id)
    if wish.port not in (None, 0, first.address[1]):
        raise CliError(
            f"the cluster in {cluster.path} begins at port {first.address[1]}, not {wish.port}",
            "leave out --port, or give another --data-dir",
        )
    wanted = dict(wish.settings) | ({} if wish.advertise is None else {"advertised.listeners": wish.advertise})
    for node in cluster.nodes.values():
        for key, value in wanted.items():
            if node.config.given.get(key) != value:
                raise CliError(
                    f"the cluster in {cluster.path} is there already, with another {key}",
                    f"change it in the config file of each node, such as {node.config_path}",
                )


def _refuse_running(cluster: ClusterDirectory) -> None:
    alive = cluster.alive()
    if not alive:
        return
    if len(alive) == len(cluster.nodes):
        raise CliError(f"the cluster in {cluster.path} is running already", f"clients reach it at {cluster.bootstrap}")
    dead = next(node_id for node_id in cluster.nodes if node_id not in alive)
    raise CliError(
        f"{counted(len(alive), 'node')} of the cluster in {cluster.path} run already",
        f"start the others with `chronik cluster restart {dead}`, or stop it first with `chronik cluster stop`",
    )


def _stay(cluster: ClusterDirectory, launched: Mapping[int, Launched], data_dir: str, interrupts: Interrupts) -> int:
    """In the foreground until Ctrl-C; nodes that die or come back are shown."""
    print_note("Ctrl-C stops it")
    seen, gone = set(launched), set[int]()
    while not interrupts.is_ending:
        time.sleep(LOOK_EVERY_S)
        cluster = _as_it_is_now(cluster)
        alive = {node_id for node_id, node in cluster.nodes.items() if _is_alive(node, launched.get(node_id))}
        for node_id in sorted(gone & alive):
            print_note(f"node {node_id} is back")
        # One that is just being added has not been seen yet, and has not died.
        dead = seen.intersection(cluster.nodes) - alive
        for node_id in sorted(dead - gone):
            print_note(_obituary(node_id, launched, data_dir))
        seen, gone = seen | alive, dead
        if not alive:
            print_note("no node runs any more")
            return 0 if all(each.ended() == 0 for each in launched.values()) else 1
    for node_id, each in launched.items():
        if node_id not in cluster.nodes or cluster.nodes[node_id].pid() is None:
            each.end()  # one that `stop_all` cannot find, as when its directory was removed
    return 0 if stop_all(cluster) else 1


def _as_it_is_now(cluster: ClusterDirectory) -> ClusterDirectory:
    """Nodes may have been added or removed; whatever else has become of the directory, the nodes still run."""
    try:
        return ClusterDirectory.find(str(cluster.path)) or cluster
    except CliError:
        return cluster


def _is_alive(node: ClusterNode, ours: Launched | None) -> bool:
    """One that has ended may have been started again by somebody else."""
    return (ours is not None and ours.ended() is None) or node.pid() is not None


def _obituary(node_id: int, launched: Mapping[int, Launched], data_dir: str) -> str:
    ours = launched.get(node_id)
    code = None if ours is None else ours.ended()
    if code == 0:
        return f"node {node_id} was stopped"
    how = "" if code is None else f", killed by {signal.Signals(-code).name}" if code < 0 else f" with exit code {code}"
    return f"node {node_id} died{how}; `chronik cluster restart {node_id} --data-dir {data_dir}` starts it again"


def _say_ready(cluster: ClusterDirectory, seconds: float, data_dir: str, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(cluster, seconds))
    else:
        print_line(f"ready: {cluster.bootstrap}")
        print_line(f"{counted(len(cluster.nodes), 'node')} in {seconds:.1f} s, data and logs in {data_dir}")


def _as_json(cluster: ClusterDirectory, seconds: float) -> dict[str, object]:
    return {
        "ready": True,
        "bootstrap": cluster.bootstrap,
        "seconds": round(seconds, 3),
        "cluster_id": cluster.cluster_id,
        "data_dir": str(cluster.path),
        "nodes": sorted(cluster.nodes),
    }
