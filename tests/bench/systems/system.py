"""What a system must offer to be measured: servers that start, stop and die, and a name and version to print."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import psutil

MEGABYTE = 1e6
MORE_LISTENERS = "bench.more.listeners"
"""Not a setting of either: what is put behind the listener of a server, as `,SSL://127.0.0.1:9093`."""


class ServerFailed(Exception):
    """A server did not start or stop; the message has what it printed."""


class Server(Protocol):
    """One node of a system on loopback. It keeps its port and its data through stop, kill and spawn."""

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...

    def spawn(self) -> None:
        """Start the process and return at once."""

    def wait_until_ready(self) -> None:
        """Until clients are served. Raises ServerFailed."""

    def stop(self) -> None:
        """Stop in order, and return when it has ended. Raises ServerFailed."""

    def kill(self) -> None:
        """SIGKILL. Does nothing when it does not run."""


class Cluster(Protocol):
    """Several nodes of a system on loopback, by their ids."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pids(self) -> dict[int, int]: ...

    @property
    def ports(self) -> dict[int, int]: ...

    def start(self) -> None:
        """Start all nodes that do not run, and return when they are one cluster. Raises ServerFailed."""

    def wait_until_in_sync(self, topic: str) -> int:
        """Until every node has partition 0 of this topic. Returns its leader. Raises ServerFailed."""

    def stop(self) -> None:
        """Stop all in order. Raises ServerFailed."""

    def kill(self) -> None:
        """SIGKILL to all that run."""


class System(Protocol):
    """Makes servers."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def server(self, directory: Path, settings: Mapping[str, str]) -> Server:
        """A server that is not started yet. `settings` are under Kafka's names."""

    def cluster(self, directory: Path, settings: Mapping[str, str]) -> Cluster:
        """Three nodes that are not started yet, with the same settings."""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now. The client must know a node's before the node does, to time its start."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def bootstrap(server: Server) -> str:
    """The address for clients, HOST:PORT."""
    return f"127.0.0.1:{server.port}"


def cpu_seconds(pid: int) -> float:
    """CPU that the process has used, all its threads, in user and system mode."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def memory_megabytes(pid: int) -> tuple[float, float]:
    """Resident memory, and of it what is not shared (PSS; resident where the system does not tell)."""
    memory = psutil.Process(pid).memory_full_info()
    return memory.rss / MEGABYTE, getattr(memory, "pss", memory.rss) / MEGABYTE


def resident_megabytes(pid: int) -> float:
    """Cheap enough to be asked often."""
    return float(psutil.Process(pid).memory_info().rss / MEGABYTE)


def idle_cpu_percent(pids: Iterable[int], seconds: float) -> float:
    """Of one core, while nothing asks anything: of the process that uses most."""
    before_s, started = {pid: cpu_seconds(pid) for pid in pids}, time.monotonic()
    time.sleep(seconds)
    most_s = max(cpu_seconds(pid) - used_s for pid, used_s in before_s.items())
    return 100 * most_s / (time.monotonic() - started)
