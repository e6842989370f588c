"""`chronik cluster start`: makes a cluster of nodes on this machine, or starts the one that is there again."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping
from typing import Annotated

import typer

from chronik.cli.cluster.options import DEFAULT_DIRECTORY, DataDir
from chronik.cli.cluster.stop import stop_all
from chronik.cli.console.beside import ConsoleBeside
from chronik.cli.options import AsJson, example
from chronik.cli.output import counted, print_json, print_line, print_note
from chronik.cli.values import parse_pairs
from chronik.client.errors import ChronikError
from chronik.local_cluster import processes
from chronik.local_cluster.directory import ClusterDirectory, ClusterNode
from chronik.local_cluster.files import held
from chronik.local_cluster.making import ClusterPlan, make
from chronik.local_cluster.processes import Launched
from chronik.shell.interrupts import Interrupts

EXAMPLE = example(
    "chronik cluster start",
    "chronik cluster start --nodes 3 --data-dir my-cluster --port 9092 --detach",
    "chronik cluster start --secure --data-dir secured --detach",
    "chronik cluster start --data-dir fast --port 0 --set durability=os --set num.partitions=3",
)
LOOK_EVERY_S = 0.2


Nodes = Annotated[int | None, typer.Option("--nodes", min=1, max=99, metavar="N", help="How many.", show_default="3")]
FirstPort = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65_000, metavar="P", help="Node i listens on P+i-1; 0 for free ones.", show_default="9092"
    ),
]


def start(
    nodes: Nodes = None,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    port: FirstPort = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when the cluster is ready, and let it run.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of every node; repeat for more."),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise", metavar="HOST:PORT", help="The one address that clients are given, as behind a tunnel."
        ),
    ] = None,
    console: Annotated[
        bool,
        typer.Option("--console/--no-console", help="Serve the web console too, while this stays in the foreground."),
    ] = True,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="With TLS, logins (SCRAM) and ACLs: makes certificates and an administrator in DIR/security.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a cluster on this machine, one process a node. A directory that has one starts the same cluster again."""
    begin = time.monotonic()
    plan = ClusterPlan(nodes, port, parse_pairs("--set", set_ or []), advertise, secure)
    interrupts = Interrupts()
    interrupts.listen()  # from before the first node is started: ending this must leave no nodes over
    with held(data_dir):
        cluster = _made_or_found(data_dir, plan)
        launched = processes.launch(cluster, cluster.nodes.values(), interrupts)
    seconds = time.monotonic() - begin
    if detach:
        _say_ready(cluster, seconds, data_dir, as_json)
        return
    beside = None
    try:
        _say_ready(cluster, seconds, data_dir, as_json)
        if console:
            beside = ConsoleBeside(cluster.bootstrap, _command_config(cluster))
            print_note(f"console: {beside.url}")
        code = _stay(cluster, launched, data_dir, interrupts)
    except BaseException:  # a second Ctrl-C, or a terminal that is gone: they must not run on without it
        for each in launched.values():
            each.ask_to_end()
        raise
    finally:
        if beside is not None:
            beside.end()
    raise typer.Exit(code)


def _command_config(cluster: ClusterDirectory) -> str | None:
    """The file that lets programs in as the administrator; None where nothing is asked for."""
    return str(cluster.security.properties) if cluster.security.is_there else None


def _made_or_found(data_dir: str, plan: ClusterPlan) -> ClusterDirectory:
    """A cluster of which no node runs. Raises ChronikError."""
    cluster = ClusterDirectory.find(data_dir)
    if cluster is None:
        return make(data_dir, plan)
    _refuse_other_plans(cluster, plan)
    _refuse_running(cluster)
    processes.refuse_taken_ports(cluster.nodes.values())
    return cluster


def _refuse_other_plans(cluster: ClusterDirectory, plan: ClusterPlan) -> None:
    """A cluster that is there is started as it is; what was asked must not be passed over in silence."""
    count = len(cluster.nodes)
    if plan.nodes not in (None, count):
        raise ChronikError(
            f"the cluster in {cluster.path} has {counted(count, 'node')}, not {plan.nodes}",
            "leave out --nodes, use `chronik cluster add` or `remove`, or give another --data-dir",
        )
    if plan.is_secure and not cluster.security.is_there:
        raise ChronikError(
            f"the cluster in {cluster.path} is not a secured one", "leave out --secure, or give another --data-dir"
        )
    first = min(cluster.nodes.values(), key=lambda node: node.id)
    if plan.port not in (None, 0, first.address[1]):
        raise ChronikError(
            f"the cluster in {cluster.path} begins at port {first.address[1]}, not {plan.port}",
            "leave out --port, or give another --data-dir",
        )
    wanted = dict(plan.settings) | ({} if plan.advertise is None else {"advertised.listeners": plan.advertise})
    for node in cluster.nodes.values():
        for key, value in wanted.items():
            if node.config.given.get(key) != value:
                raise ChronikError(
                    f"the cluster in {cluster.path} is there already, with another {key}",
                    f"change it in the config file of each node, such as {node.config_path}",
                )


def _refuse_running(cluster: ClusterDirectory) -> None:
    alive = cluster.alive()
    if not alive:
        return
    if len(alive) == len(cluster.nodes):
        raise ChronikError(
            f"the cluster in {cluster.path} is running already", f"clients reach it at {cluster.bootstrap}"
        )
    dead = next(node_id for node_id in cluster.nodes if node_id not in alive)
    raise ChronikError(
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
    except ChronikError:
        return cluster


def _is_alive(node: ClusterNode, ours: Launched | None) -> bool:
    """One that has ended may have been started again by hand."""
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
        if (config := _command_config(cluster)) is not None:
            print_line("secured: clients need TLS and a login. To be its administrator in this shell:")
            print_line(f"export CHRONIK_BOOTSTRAP={cluster.bootstrap} CHRONIK_COMMAND_CONFIG={shlex.quote(config)}")


def _as_json(cluster: ClusterDirectory, seconds: float) -> dict[str, object]:
    return {
        "ready": True,
        "bootstrap": cluster.bootstrap,
        "seconds": round(seconds, 3),
        "cluster_id": cluster.cluster_id,
        "data_dir": str(cluster.path),
        "nodes": sorted(cluster.nodes),
        "command_config": _command_config(cluster),
    }
