"""The directory of a cluster on one machine: which nodes it has, their config files, and which of them are alive.

    DIR/cluster.json             the cluster's id and its nodes' numbers
    DIR/node-1/chronik.toml      what node 1 is started with: to be read and changed
    DIR/node-1/node.log          what it prints
    DIR/node-1/data/             its messages

A node's config file is the only place that says where it listens and where its messages are. That it is alive is known
from the lock on its data directory, which also holds its process id: so a process id that the operating system has
given to another program meanwhile is never taken for a node's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from chronik.cli.errors import CliError
from chronik.core.config.definitions import BadConfig
from chronik.shell.data_dir import holder_of
from chronik.shell.errors import StartError
from chronik.shell.settings import read_config_file

if TYPE_CHECKING:
    from chronik.core.config.node import NodeConfig

STATE = "cluster.json"
CONFIG = "chronik.toml"
FORMAT = 1

Address = tuple[str, int]


@dataclass(frozen=True)
class ClusterNode:
    """One node of the directory, running or not."""

    id: int
    directory: Path

    @property
    def config_path(self) -> Path:
        return self.directory / CONFIG

    @property
    def log_path(self) -> Path:
        return self.directory / "node.log"

    @cached_property
    def config(self) -> NodeConfig:
        """As its file has it now. Raises CliError."""
        try:
            return checked(read_config_file(str(self.config_path)))
        except StartError as problem:
            raise CliError(problem.message, f"it is the config of node {self.id}") from None

    @property
    def data_dir(self) -> str:
        return self.config.log_dirs

    @property
    def address(self) -> Address:
        """Where it listens, for clients and other nodes."""
        host, port = self.config.address
        return ("127.0.0.1" if host in ("", "0.0.0.0", "::") else host), port

    @property
    def http(self) -> str | None:
        where = self.config.http_host_and_port
        return None if where is None else f"http://{written(where)}"

    def pid(self) -> int | None:
        """Its process while it is alive, else None."""
        return holder_of(self.data_dir)


@dataclass
class ClusterDirectory:
    """A cluster whose nodes all run on this machine."""

    path: Path
    cluster_id: str
    nodes: dict[int, ClusterNode] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str) -> ClusterDirectory:
        """The cluster that was started here. Raises CliError when there is none."""
        found = cls.find(path)
        if found is None:
            where = "is empty" if os.path.isdir(path) else "does not exist"
            raise CliError(
                f"there is no cluster in {path}: it {where}",
                f"start one with `chronik cluster start --data-dir {path}`, or give its directory with --data-dir",
            )
        return found

    @classmethod
    def find(cls, path: str) -> ClusterDirectory | None:
        """The cluster that was started here, None in a new or empty directory. Raises CliError for anything else."""
        directory = Path(os.path.abspath(path))
        try:
            text = (directory / STATE).read_text(encoding="utf-8")
        except FileNotFoundError:
            _refuse_foreign(directory, path)
            return None
        except (OSError, UnicodeDecodeError) as problem:
            raise CliError(f"{directory / STATE} cannot be read: {problem}", "give another --data-dir") from None
        return cls._parsed(directory, text)

    @classmethod
    def _parsed(cls, directory: Path, text: str) -> ClusterDirectory:
        try:
            state = json.loads(text)
            made_in, found_format = Path(state["directory"]), state["format"]
            cluster_id, ids = str(state["cluster_id"]), [int(each) for each in state["nodes"]]
        except (ValueError, KeyError, TypeError):
            raise CliError(
                f"{directory / STATE} is damaged or not chronik's", "give another --data-dir, or restore it"
            ) from None
        if found_format != FORMAT:
            raise CliError(
                f"{directory} has format {found_format}, this version knows format {FORMAT}",
                "use the version of chronik that made it",
            )
        if made_in != directory:  # the nodes would start with new, empty data in the old place
            raise CliError(
                f"the cluster in {directory} was made in {made_in}",
                f"move it back; or change log.dirs in each node's {CONFIG} and 'directory' in {STATE}",
            )
        return cls(directory, cluster_id, {each: ClusterNode(each, directory / f"node-{each}") for each in sorted(ids)})

    def save(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        state = {
            "format": FORMAT,
            "cluster_id": self.cluster_id,
            "directory": str(self.path),
            "nodes": sorted(self.nodes),
        }
        beside = self.path / f"{STATE}.tmp"
        beside.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        beside.replace(self.path / STATE)

    def new_node(self, node_id: int, settings: Mapping[str, str]) -> ClusterNode:
        """A further node with a config file of its own; `save` makes it one of the cluster. Raises CliError."""
        node = ClusterNode(node_id, self.path / f"node-{node_id}")
        own = {"node.id": str(node_id), "cluster.id": self.cluster_id, "log.dirs": str(node.directory / "data")}
        values = {**own, **settings}
        checked(values)
        node.directory.mkdir(parents=True, exist_ok=True)
        node.config_path.write_text(as_toml(node_id, values), encoding="utf-8")
        self.nodes[node_id] = node
        return node

    def unused_number(self) -> int:
        """For a new node; never that of a node that was removed, whose files may still be there."""
        there = [int(name[5:]) for name in os.listdir(self.path) if name.startswith("node-") and name[5:].isdecimal()]
        return max([*there, *self.nodes], default=0) + 1

    def write_voters(self, voter_ids: Iterable[int]) -> None:
        """Into every node's file, all other lines of which stay. The nodes have it in their metadata log; this is for
        one whose disk is lost: it must not take itself for the cluster that there once was."""
        voters = ",".join(f"{each}@{written(self.nodes[each].address)}" for each in voter_ids if each in self.nodes)
        line = f'controller.quorum.voters = "{voters}"'
        for node in self.nodes.values():
            lines = node.config_path.read_text(encoding="utf-8").splitlines()
            kept = [each for each in lines if not each.startswith("controller.quorum.voters")]
            node.config_path.write_text("\n".join([*kept, line]) + "\n", encoding="utf-8")

    def node(self, node_id: int) -> ClusterNode:
        """Raises CliError for a node that the cluster does not have."""
        found = self.nodes.get(node_id)
        if found is None:
            known = ", ".join(map(str, self.nodes))
            raise CliError(f"the cluster in {self.path} has no node {node_id}", f"its nodes are {known}")
        return found

    def alive(self) -> dict[int, int]:
        """The process ids of the nodes that run, by node id."""
        found = ((node_id, node.pid()) for node_id, node in self.nodes.items())
        return {node_id: pid for node_id, pid in found if pid is not None}

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, with commas, for clients."""
        return ",".join(written(node.address) for node in self.nodes.values())


def _refuse_foreign(directory: Path, path: str) -> None:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    except OSError as problem:
        raise CliError(f"{path} cannot be used: {problem.strerror}", "give another --data-dir") from None
    if "meta.properties" in names:
        raise CliError(f"{path} holds the messages of a single node, not a cluster", "give another --data-dir")
    if names:
        raise CliError(f"{path} holds something else: {names[0]}", "give a new or empty directory with --data-dir")


def checked(settings: Mapping[str, str]) -> NodeConfig:
    """The config these settings make. Raises CliError."""
    from chronik.core.config.node import NodeConfig  # 30 ms that the other commands need not spend

    try:
        return NodeConfig.from_settings(settings)
    except BadConfig as problem:
        hint = f"did you mean {problem.nearest}?" if problem.nearest else "see docs/configuration.md for the settings"
        raise CliError(str(problem), hint) from None


def as_toml(node_id: int, settings: Mapping[str, str]) -> str:
    """A config file. Numbers and truths are written bare, all else as strings."""
    lines = [
        f"# Node {node_id} of a cluster that `chronik cluster start` made. It is read when the node starts, so change",
        f"# what you like and `chronik cluster restart {node_id}`. The settings are in docs/configuration.md.",
        "",
    ]
    for key, value in settings.items():
        is_bare = value in ("true", "false") or (value.isdecimal() and str(int(value)) == value)
        lines.append(f"{key} = {value if is_bare else json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
