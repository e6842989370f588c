"""The directory of a cluster on one machine: which nodes it has, their config files, and which of them are alive.

    DIR/cluster.json             the cluster's id and its nodes' numbers
    DIR/node-1/chronik.toml      what node 1 is started with: to be read and changed
    DIR/node-1/launched.json     what it was started with last
    DIR/node-1/node.log          what it prints
    DIR/node-1/data/             its messages

A node's config file says where it is to listen and where its messages are to be. What has been changed there since it
was started, or mistyped, does not hold for the process that runs: where that is and where it listens is in
`launched.json`. That it is alive is known from the lock on its data directory, which also holds its process id: so a
process id that the operating system has given to another program meanwhile is never taken for a node's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chronik.client.errors import ChronikError
from chronik.client.security import Security
from chronik.core.config.definitions import BadConfig
from chronik.local_cluster.config import VOTERS, as_toml, checked, has_secrets, with_voters
from chronik.local_cluster.files import held, in_words, replace
from chronik.local_cluster.secured import FOLDER, ClusterSecurity
from chronik.shell.data_dir import LOCK, holder_of
from chronik.shell.errors import StartError
from chronik.shell.settings import read_config_file

if TYPE_CHECKING:
    from chronik.core.config.node import NodeConfig

STATE = "cluster.json"
CONFIG = "chronik.toml"
LAUNCHED = "launched.json"
FORMAT = 1

Address = tuple[str, int]


class Running(NamedTuple):
    """A node's process, and the settings it was started with; without settings where these cannot be known."""

    pid: int
    settings: Mapping[str, str]


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
        """As its file has it now. Raises ChronikError."""
        try:
            return checked(read_config_file(str(self.config_path)))
        except StartError as problem:
            raise ChronikError(problem.message, f"it is the config of node {self.id}") from None
        except ChronikError as problem:
            raise ChronikError(
                f"the config file {self.config_path} of node {self.id} is wrong: {problem.message}", problem.hint
            ) from None

    @property
    def security(self) -> ClusterSecurity:
        """Of the cluster that it belongs to."""
        return ClusterSecurity(self.directory.parent / FOLDER)

    def problem(self) -> str | None:
        """What is wrong with its config file, if anything."""
        try:
            _ = self.config
        except ChronikError as problem:
            return str(problem)
        return None

    def note_launch(self) -> None:
        """Before it is started: what it is started with. Raises OSError, ChronikError."""
        settings = {**self.config.given, "log.dirs": os.path.abspath(self.config.server.log_dirs)}
        noted = {"config": str(self.config_path), "settings": settings}
        replace(self.directory / LAUNCHED, json.dumps(noted, indent=2) + "\n", is_secret=has_secrets(settings))

    def running(self) -> Running | None:
        """Its process while it is alive. Raises ChronikError."""
        for settings in self._possible_settings():
            data_dir = settings.get("log.dirs") or str(self.directory / "data")
            with in_words(Path(data_dir, LOCK)):
                pid = holder_of(data_dir)
            if pid is not None:
                return Running(pid, settings)
        return None

    def _possible_settings(self) -> Iterator[Mapping[str, str]]:
        """Those that it was launched with; or it was started by hand, and then it has those of its file."""
        noted = self._noted_settings()
        if noted:
            yield noted
        yield {} if self.problem() else {**self.config.given, "log.dirs": self.config.server.log_dirs}

    def _noted_settings(self) -> Mapping[str, str]:
        try:
            noted = json.loads((self.directory / LAUNCHED).read_text(encoding="utf-8"))
            # In a copy of the whole directory it says where the nodes of the first one are.
            if noted["config"] == str(self.config_path):
                return {str(key): str(value) for key, value in noted["settings"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # never launched, or by a version that did not note it
        return {}

    def pid(self) -> int | None:
        """Its process while it is alive, else None. Raises ChronikError."""
        found = self.running()
        return None if found is None else found.pid

    @property
    def config_in_force(self) -> NodeConfig:
        """Of its process while that runs, else that of its file. Raises ChronikError."""
        found = self.running()
        return self.config if found is None or not found.settings else checked(found.settings)

    @property
    def data_dir(self) -> str:
        return self.config_in_force.server.log_dirs

    @property
    def address(self) -> Address:
        """Where it listens, for clients and other nodes. Raises ChronikError."""
        return _listens_at(self.config_in_force)

    @property
    def configured_address(self) -> Address:
        """Where it will listen when it is started the next time. Raises ChronikError."""
        return _listens_at(self.config)

    @property
    def configured_address_for_nodes(self) -> Address:
        """The same, for other nodes, which may have a listener of their own. Raises ChronikError."""
        point = self.config.listeners.inter_node
        return ("127.0.0.1" if point.host in ("", "0.0.0.0", "::") else point.host), point.port

    @property
    def http(self) -> str | None:
        http = self.config_in_force.http
        where = http.http_host_and_port
        return None if where is None else f"{http.http_scheme}://{written(where)}"


@dataclass
class ClusterDirectory:
    """A cluster whose nodes all run on this machine."""

    path: Path
    cluster_id: str
    nodes: dict[int, ClusterNode] = field(default_factory=dict)

    @property
    def security(self) -> ClusterSecurity:
        """Its keys and passwords, where it is a secured one."""
        return ClusterSecurity(self.path / FOLDER)

    def admin(self) -> Security | None:
        """How its administrator is let in; None where it is not secured. Raises ChronikError."""
        return self.security.admin() if self.security.is_there else None

    @classmethod
    def open(cls, path: str) -> ClusterDirectory:
        """The cluster that was started here. Raises ChronikError when there is none."""
        found = cls.find(path)
        if found is None:
            where = "is empty" if os.path.isdir(path) else "does not exist"
            raise ChronikError(
                f"there is no cluster in {path}: it {where}",
                f"start one with `chronik cluster start --data-dir {path}`, or give its directory with --data-dir",
            )
        return found

    @classmethod
    def find(cls, path: str) -> ClusterDirectory | None:
        """The cluster that was started here, None in a new or empty directory. Raises ChronikError otherwise."""
        directory = Path(os.path.abspath(path))
        with in_words(directory / STATE, "give another --data-dir"):
            try:
                content = (directory / STATE).read_bytes()
            except FileNotFoundError:
                _refuse_foreign(directory, path)
                return None
        return cls._parsed(directory, content)

    @classmethod
    @contextlib.contextmanager
    def changing(cls, path: str) -> Iterator[ClusterDirectory]:
        """As `open`, for one that adds nodes or removes them: nothing else does so meanwhile."""
        cls.open(path)  # where there is none, no directory is made
        with held(path):
            yield cls.open(path)

    @classmethod
    def _parsed(cls, directory: Path, content: bytes) -> ClusterDirectory:
        try:
            state = json.loads(content)
            made_in, found_format = Path(state["directory"]), state["format"]
            cluster_id, ids = str(state["cluster_id"]), [int(each) for each in state["nodes"]]
        except (ValueError, KeyError, TypeError):
            raise ChronikError(
                f"{directory / STATE} is damaged or not chronik's", "give another --data-dir, or restore it"
            ) from None
        if found_format != FORMAT:
            raise ChronikError(
                f"{directory} has format {found_format}, this version knows format {FORMAT}",
                "use the version of chronik that made it",
            )
        if made_in != directory:  # the nodes would start with new, empty data in the old place
            raise ChronikError(
                f"the cluster in {directory} was made in {made_in}",
                f"move it back; or change log.dirs in each node's {CONFIG} and 'directory' in {STATE}",
            )
        return cls(directory, cluster_id, {each: ClusterNode(each, directory / f"node-{each}") for each in sorted(ids)})

    def save(self) -> None:
        """Raises ChronikError."""
        state = {
            "format": FORMAT,
            "cluster_id": self.cluster_id,
            "directory": str(self.path),
            "nodes": sorted(self.nodes),
        }
        with in_words(self.path / STATE):
            self.path.mkdir(parents=True, exist_ok=True)
            replace(self.path / STATE, json.dumps(state, indent=2) + "\n")

    def new_node(self, node_id: int, settings: Mapping[str, str]) -> ClusterNode:
        """A further node with a config file of its own; `save` makes it one of the cluster. Raises ChronikError."""
        node = ClusterNode(node_id, self.path / f"node-{node_id}")
        own = {"node.id": str(node_id), "cluster.id": self.cluster_id, "log.dirs": str(node.directory / "data")}
        values = {**own, **settings}
        checked(values)
        with in_words(node.directory, "give another --data-dir, or make room"):
            node.directory.mkdir(parents=True, exist_ok=True)
            replace(node.config_path, as_toml(node_id, values), is_secret=has_secrets(values))
        self.nodes[node_id] = node
        return node

    def unused_number(self) -> int:
        """For a new node; never that of a node that was removed, whose files may still be there."""
        there = [int(name[5:]) for name in os.listdir(self.path) if name.startswith("node-") and name[5:].isdecimal()]
        return max([*there, *self.nodes], default=0) + 1

    def write_voters(self, voters: Mapping[int, Address | None]) -> list[str]:
        """Into every node's file, with the addresses from the voters' own files, else those given. Returns what was in
        the way, one line for each file. The nodes have it in their metadata log; this is for one whose disk is lost: it
        must not take itself for the cluster that there once was."""
        addresses = {each: self._configured_address(each) or known for each, known in voters.items()}
        text = ",".join(f"{each}@{written(address)}" for each, address in addresses.items() if address is not None)
        return [problem for node in self.nodes.values() if (problem := _write_voters(node, text)) is not None]

    def _configured_address(self, node_id: int) -> Address | None:
        with contextlib.suppress(ChronikError, KeyError):
            return self.nodes[node_id].configured_address_for_nodes
        return None

    def node(self, node_id: int) -> ClusterNode:
        """Raises ChronikError for a node that the cluster does not have."""
        found = self.nodes.get(node_id)
        if found is None:
            known = ", ".join(map(str, self.nodes))
            raise ChronikError(f"the cluster in {self.path} has no node {node_id}", f"its nodes are {known}")
        return found

    def alive(self) -> dict[int, int]:
        """The process ids of the nodes that run, by node id."""
        found = ((node_id, node.pid()) for node_id, node in self.nodes.items())
        return {node_id: pid for node_id, pid in found if pid is not None}

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes of which it is known, with commas, for clients."""
        addresses = (address_or_none(node) for node in self.nodes.values())
        return ",".join(written(address) for address in addresses if address is not None)


def _refuse_foreign(directory: Path, path: str) -> None:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    if "meta.properties" in names:
        raise ChronikError(f"{path} holds the messages of a single node, not a cluster", "give another --data-dir")
    if names:
        raise ChronikError(f"{path} holds something else: {names[0]}", "give a new or empty directory with --data-dir")


def _write_voters(node: ClusterNode, voters: str) -> str | None:
    """What kept this file from being changed, if anything."""
    try:
        with in_words(node.config_path):
            text = node.config_path.read_bytes().decode()  # with the line ends that it has
            replace(node.config_path, with_voters(text, voters))
    except (BadConfig, UnicodeDecodeError) as problem:
        what = f"the config file {node.config_path} of node {node.id} is left as it is: {problem}"
    except ChronikError as problem:
        what = str(problem)
    else:
        return None
    return f'{what}; see that it says {VOTERS} = "{voters}"'


def address_or_none(node: ClusterNode) -> Address | None:
    """Where it listens, None for one that cannot be asked: it does not run, and its config file has a mistake."""
    try:
        return node.address
    except ChronikError:
        return None


def _listens_at(config: NodeConfig) -> Address:
    host, port = config.address
    return ("127.0.0.1" if host in ("", "0.0.0.0", "::") else host), port


def written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
