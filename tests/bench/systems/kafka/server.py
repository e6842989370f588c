"""Nodes of Apache Kafka on loopback: one that is broker and controller, or three such."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench.systems.asking import leader_when_in_sync, names_all
from tests.bench.systems.kafka.jars import SERVER_FLAGS, SHORT_LIFE_FLAGS, command
from tests.bench.systems.system import MORE_LISTENERS, ServerFailed, free_ports

# With ten thousand partitions, after a kill, it takes its time.
READY_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 600.0
FORMAT_TIMEOUT_S = 60.0
POLL_S = 0.02
NODES = 3
# As those of chronik.testing, which the other clusters are of.
SETTINGS_OF_CLUSTERS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}
CLUSTER_ID = "Y2hyb25pay1iZW5jaC4uLg"
# The distribution's log, without its many files.
LOG_CONFIG = """\
status = warn
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


def settings_of_kafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Ours in Kafka's words. `durability` is ours alone: `os` is what Kafka does, `sync` is a flush of each message."""
    named = dict(settings)
    match named.pop("durability", "os"):
        case "os":
            return named
        case "sync":
            return named | {"log.flush.interval.messages": "1"}
        case other:
            raise ValueError(f"durability {other}")


class KafkaServer:
    """One node, formatted when it is made: starting it is all that is left."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        node_id: int = 1,
        ports: tuple[int, int] | None = None,
        voters: Mapping[int, int] | None = None,
    ) -> None:
        self._directory = directory
        self._port, controller_port = ports or free_ports(2)
        voters = voters or {node_id: controller_port}
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._properties = directory / "server.properties"
        self._log = directory / "server.log"
        (directory / "log4j2.properties").write_text(LOG_CONFIG.format(path=self._log))
        every = self._settings(node_id, controller_port, voters) | settings_of_kafka(settings)
        every["listeners"] += every.pop(MORE_LISTENERS, "")
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in every.items()))
        self._formatting: subprocess.Popen[bytes] | None = self._begin_format()

    def _settings(self, node_id: int, controller_port: int, voters: Mapping[int, int]) -> dict[str, str]:
        copies = str(min(3, len(voters)))
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in voters.items()),
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._directory / "data"),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(min(2, len(voters))),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": str(min(2, len(voters))),
        }

    def _begin_format(self) -> subprocess.Popen[bytes]:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties))
        with (self._directory / "format.out").open("wb") as printed:
            return subprocess.Popen(
                command("kafka.tools.StorageTool", *arguments, flags=(*SHORT_LIFE_FLAGS, *self._log_flags())),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
            )

    def _log_flags(self) -> tuple[str, ...]:
        return (f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}",)

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_until_formatted(self) -> None:
        """Raises ServerFailed."""
        if self._formatting is None:
            return
        try:
            code = self._formatting.wait(FORMAT_TIMEOUT_S)
        except subprocess.TimeoutExpired as problem:
            self._formatting.kill()
            raise ServerFailed("Kafka's storage tool did not end") from problem
        self._formatting = None
        if code != 0:
            raise ServerFailed(f"Kafka's storage tool failed:\n{self._told('format.out')}")

    def spawn(self) -> None:
        self.wait_until_formatted()
        with (self._directory / "server.out").open("ab") as printed:
            self._process = subprocess.Popen(
                command("kafka.Kafka", str(self._properties), flags=(*SERVER_FLAGS, *self._log_flags())),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,  # Ctrl-C is for the bench, which then stops it
            )

    def wait_until_ready(self, nodes: int = 1) -> None:
        """Until it serves clients and names all nodes."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not names_all(self._port, nodes):
            if not self.is_running or time.monotonic() > deadline:
                raise ServerFailed(f"Kafka did not start:\n{self._told('server.out')}{self._told('server.log')}")
            time.sleep(POLL_S)

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        if self._process is None:
            return
        self.ask_to_stop()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as problem:
            raise ServerFailed(f"Kafka did not stop within {STOP_TIMEOUT_S:.0f} s") from problem
        self._process = None
        if code not in (0, 128 + signal.SIGTERM):  # a JVM ends so after an orderly shutdown
            raise ServerFailed(f"Kafka ended with {code}:\n{self._told('server.log')}")

    def kill(self) -> None:
        for process in (self._process, self._formatting):
            if process is not None:
                process.kill()
                process.wait()
        self._process = self._formatting = None

    def _told(self, name: str) -> str:
        path = self._directory / name
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""


class KafkaCluster:
    """Three nodes, each broker and controller, as Chronik's are."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        ids = range(1, NODES + 1)
        free = free_ports(2 * NODES)
        voters = dict(zip(ids, free[NODES:], strict=True))
        settings = SETTINGS_OF_CLUSTERS | dict(settings)
        self._nodes = {
            node_id: KafkaServer(
                directory / f"node-{node_id}", settings, node_id, (free[node_id - 1], voters[node_id]), voters
            )
            for node_id in ids
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self._nodes.values())

    @property
    def pids(self) -> dict[int, int]:
        return {node_id: node.pid for node_id, node in self._nodes.items() if node.is_running}

    @property
    def ports(self) -> dict[int, int]:
        return {node_id: node.port for node_id, node in self._nodes.items()}

    def start(self) -> None:
        for node in self._nodes.values():
            if not node.is_running:
                node.spawn()
        for node in self._nodes.values():
            node.wait_until_ready(NODES)

    def wait_until_in_sync(self, topic: str) -> int:
        return leader_when_in_sync(self.ports.values(), topic, NODES, READY_TIMEOUT_S)

    def stop(self) -> None:
        # All at once: the last of three that are stopped in turn would wait for a quorum that is gone.
        for node in self._nodes.values():
            node.ask_to_stop()
        for node in self._nodes.values():
            node.stop()

    def kill(self) -> None:
        for node in self._nodes.values():
            node.kill()
