"""A cluster of nodes in child processes, to be used, killed, paused and restarted by tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chronik.client.cluster_view import ClusterView, view_of
from chronik.client.request import NoAnswer
from chronik.local_cluster.secured import FOLDER, ClusterSecurity
from chronik.shell.ports import free_ports
from chronik.testing.node import START_TIMEOUT_S, TEST_SETTINGS, RunningNode

POLL_S = 0.01


class ClusterNotReady(Exception):
    """The nodes run, but are not one cluster in time; the message says what each of them answers."""


class RunningCluster:
    """Nodes 1 to n, each in a child process. Everything takes a node by its id."""

    def __init__(self, nodes: int, directory: str, settings: Mapping[str, str], *, secure: bool = False) -> None:
        self.cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.nodes: dict[int, RunningNode] = {}
        self._directory = directory
        self.secured = ClusterSecurity(Path(directory, FOLDER)) if secure else None
        ids = range(1, nodes + 1)
        ports = dict(zip(ids, free_ports(nodes), strict=True))
        replication = min(3, nodes)
        self._settings = {
            **TEST_SETTINGS,
            "cluster.id": self.cluster_id,
            "default.replication.factor": str(replication),
            "min.insync.replicas": str(max(replication - 1, 1)),
            **settings,
        }
        if self.secured is not None:
            self.secured.make(ids)
        for node_id, port in ports.items():
            self._new_node(node_id, port, {})
        voters = ",".join(f"{node_id}@{node.address_for_nodes}" for node_id, node in self.nodes.items())
        for node in self.nodes.values():
            node.settings["controller.quorum.voters"] = voters

    def _new_node(self, node_id: int, port: int, settings: Mapping[str, str]) -> RunningNode:
        directory = os.path.join(self._directory, f"node-{node_id}")
        made = RunningNode(directory, {**self._settings, **settings, "node.id": str(node_id)})
        made.port = port
        if self.secured is not None:
            made.be_secured(self.secured, node_id)
        self.nodes[node_id] = made
        return made

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, with commas; `nodes[i].bootstrap` is one of them."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def for_confluent(self) -> dict[str, Any]:
        """What confluent-kafka needs to reach it, as its administrator where it is a secured one."""
        return self._any.for_confluent() | {"bootstrap.servers": self.bootstrap}

    def for_kafka_python(self) -> dict[str, Any]:
        """The same for kafka-python."""
        return self._any.for_kafka_python() | {"bootstrap_servers": self.bootstrap.split(",")}

    def for_aiokafka(self) -> dict[str, Any]:
        """The same for aiokafka."""
        return self._any.for_aiokafka() | {"bootstrap_servers": self.bootstrap.split(",")}

    @property
    def command_config(self) -> str | None:
        """A file of Kafka's client properties, for Kafka's tools and `chronik --command-config`."""
        return self._any.command_config

    @property
    def _any(self) -> RunningNode:
        return next(iter(self.nodes.values()))

    def running(self) -> dict[int, RunningNode]:
        return {node_id: node for node_id, node in self.nodes.items() if node.is_running}

    def start(self) -> None:
        """Start all nodes that do not run, at once, and return when they are one cluster."""
        for node in self.nodes.values():
            if not node.is_running:
                node.launch()
        self.wait_until_ready()

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Until each running node names all running nodes, a controller, and a leader for each partition.

        Raises NodeDied when one of them ends, ClusterNotReady when it takes too long.
        """
        deadline = time.monotonic() + timeout_s
        running = self.running()
        for node in running.values():
            node.wait_until_ready(max(deadline - time.monotonic(), POLL_S))
        for node_id, node in running.items():
            while not self._is_whole(node_id, list(running)):
                if time.monotonic() > deadline:
                    raise ClusterNotReady(self._described(running))
                time.sleep(POLL_S)
                if not node.is_running:
                    node.wait_until_ready()  # says why it ended

    def _is_whole(self, node_id: int, node_ids: list[int]) -> bool:
        with contextlib.suppress(NoAnswer):
            return self.view(node_id).is_whole(node_ids)
        return False

    def _described(self, running: Mapping[int, RunningNode]) -> str:
        lines = [f"nodes {', '.join(map(str, running))} run and are not one cluster:"]
        for node_id in running:
            try:
                lines.append(f"node {node_id} answers {self.view(node_id)}")
            except NoAnswer as problem:
                lines.append(f"node {node_id}: {problem}")
        return "\n".join(lines)

    def view(self, node_id: int) -> ClusterView:
        """The cluster as this node answers Metadata. Raises NoAnswer."""
        node = self.nodes[node_id]
        return view_of((node.host, node.port), security=node.security)

    def controller_id(self) -> int | None:
        """The controller, as the first running node that answers knows it."""
        for node_id in self.running():
            with contextlib.suppress(NoAnswer):
                return self.view(node_id).controller_id
        return None

    def add(self, settings: Mapping[str, str] | None = None) -> RunningNode:
        """A further node, that joins the running ones as a broker without a vote. Returns when it is ready."""
        node_id = max(self.nodes) + 1
        known = ",".join(node.address_for_nodes for node in self.running().values())
        if self.secured is not None:
            self.secured.add_node(node_id)
        joining = {"controller.quorum.bootstrap.servers": known, **(settings or {})}
        added = self._new_node(node_id, free_ports(1)[0], joining)
        added.start()
        return added

    def kill(self, node_id: int) -> None:
        """SIGKILL: as if the machine had lost power, but for the page cache."""
        self.nodes[node_id].kill()

    def restart(self, node_id: int) -> None:
        """Stop in order if it runs, start, and return when that node is ready."""
        self.nodes[node_id].restart()

    def pause(self, node_id: int) -> None:
        """SIGSTOP: it hangs, and its connections stay open."""
        self.nodes[node_id].pause()

    def resume(self, node_id: int) -> None:
        """SIGCONT: it goes on, and does not know that time has passed."""
        self.nodes[node_id].resume()

    def stop(self) -> None:
        """Stop all in order (SIGTERM). Raises AssertionError when one ends with another code than 0."""
        running = self.running()
        for node in running.values():
            node.ask_to_stop()
        codes = {node_id: node.stop() for node_id, node in running.items()}
        assert not any(codes.values()), f"exit codes of the nodes: {codes}"

    def kill_all(self) -> None:
        for node in self.nodes.values():
            node.kill()


@contextlib.contextmanager
def cluster(
    nodes: int = 3, settings: Mapping[str, str] | None = None, data_dir: str | None = None, *, secure: bool = False
) -> Iterator[RunningCluster]:
    """A cluster for the length of a `with` block. `settings`, under Kafka's names, are those of every node.

    Topics have three replicas (as many as there are nodes, if fewer) and need one less to be in sync, unless `settings`
    say otherwise. A secure one is as `node(secure=True)`, and its nodes know each other by certificates. What was
    running at the end is stopped; an exit code other than 0 is an error.
    """
    directory = data_dir or tempfile.mkdtemp(prefix="chronik-test-")
    running = RunningCluster(nodes, directory, settings or {}, secure=secure)
    try:
        running.start()
        yield running
        running.stop()
    finally:
        running.kill_all()
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
