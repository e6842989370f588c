"""Makes the config files of a new cluster on this machine."""

from __future__ import annotations

import os
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from chronik.client.connecting import parse_addresses
from chronik.client.errors import ChronikError
from chronik.local_cluster import secured
from chronik.local_cluster.config import checked
from chronik.local_cluster.directory import ClusterDirectory
from chronik.local_cluster.files import in_words
from chronik.shell.ports import free_ports, is_taken

HOST = "127.0.0.1"
NODES_DEFAULT, PORT_DEFAULT, HTTP_PORT_DEFAULT = 3, 9092, 9644
# Settings that a new cluster decides itself, and the option that changes each.
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


class ClusterPlan(NamedTuple):
    """What was asked for; None where the default holds."""

    nodes: int | None
    port: int | None
    settings: dict[str, str]
    advertise: str | None
    is_secure: bool = False


def make(data_dir: str, plan: ClusterPlan) -> ClusterDirectory:
    """The config files of a new cluster. Everything is checked before anything is written."""
    for key, hint in OWN_SETTINGS.items():
        if key in plan.settings:
            raise ChronikError(f"--set {key} is for `chronik serve`; a cluster decides it itself", hint)
    count = NODES_DEFAULT if plan.nodes is None else plan.nodes
    ports = _ports(PORT_DEFAULT if plan.port is None else plan.port, count)
    http_ports = free_ports(count, HOST) if plan.port == 0 else _http_ports(count)
    nodes_ports = free_ports(count, HOST) if plan.is_secure else ports
    settings: dict[str, str] = {
        "controller.quorum.voters": ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(nodes_ports, 1)),
        "default.replication.factor": str(min(3, count)),
        "min.insync.replicas": "2" if count >= 3 else "1",
        **plan.settings,
    }
    if plan.advertise is not None:
        parse_addresses(plan.advertise)
        settings["advertised.listeners"] = plan.advertise
    cluster_id = settings.pop("cluster.id", None) or urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    cluster = ClusterDirectory(Path(os.path.abspath(data_dir)), cluster_id)
    own = [{"listeners": f"{HOST}:{p}", "http.address": f"{HOST}:{h}"} for p, h in zip(ports, http_ports, strict=True)]
    if plan.is_secure:
        own = _secured(cluster, own, ports, nodes_ports)
    checked({"node.id": "1", "cluster.id": cluster_id, **own[0], **settings})
    if plan.is_secure:
        with in_words(cluster.security.folder):
            cluster.security.make(range(1, count + 1))
    for number, listening in enumerate(own, 1):
        cluster.new_node(number, {**listening, **settings})
    cluster.save()
    return cluster


def _secured(
    cluster: ClusterDirectory, own: list[dict[str, str]], ports: list[int], nodes_ports: list[int]
) -> list[dict[str, str]]:
    """The same, with a listener for clients that log in and one for nodes. Raises ChronikError."""
    if len(own) > secured.NODE_IDS_MAX:
        raise ChronikError(f"a secured cluster on one machine has at most {secured.NODE_IDS_MAX} nodes")
    return [
        each | {"listeners": secured.listeners(HOST, port, for_nodes)} | cluster.security.node_settings(number)
        for number, (each, port, for_nodes) in enumerate(zip(own, ports, nodes_ports, strict=True), 1)
    ]


def _ports(port: int, count: int) -> list[int]:
    if port == 0:
        return free_ports(count, HOST)
    wanted = list(range(port, port + count))
    for each in wanted:
        if is_taken(HOST, each):
            raise ChronikError(
                f"port {each} on {HOST} is in use", "stop what uses it, or give another --port, or --port 0"
            )
    return wanted


def _http_ports(count: int) -> list[int]:
    """The usual ones, else free ones: another cluster on this machine is no reason not to start."""
    usual = list(range(HTTP_PORT_DEFAULT, HTTP_PORT_DEFAULT + count))
    return free_ports(count, HOST) if any(is_taken(HOST, each) for each in usual) else usual
