"""Apache Kafka itself as the node under test: one KRaft process from the same jars as the tools.

With CHRONIK_TEST_PEER=kafka the suite runs against it, which proves that each test asks for what Kafka really does.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.clients.jvm import java_command

START_SECONDS_MAX = 60.0


@contextlib.contextmanager
def apache_kafka(jars: Path, folder: Path, config: Mapping[str, str], more_listeners: str = "") -> Iterator[str]:
    """A running Apache Kafka; gives its bootstrap address. Further listeners are as `,SSL://127.0.0.1:9093`."""
    port, controller_port = _free_ports(2)
    properties = folder / "server.properties"
    settings = _settings(folder / "logs", port, controller_port) | dict(config)
    settings["listeners"] += more_listeners
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    storage = java_command(jars, "kafka.tools.StorageTool")
    cluster_id = "Y2hyb25pay10ZXN0cy4uLg"
    subprocess.run([*storage, "format", "-t", cluster_id, "-c", str(properties)], check=True, capture_output=True)
    with (folder / "kafka.out").open("wb") as output:
        command = [*_die_with_parent(), *java_command(jars, "kafka.Kafka", "-Xmx512m"), str(properties)]
        kafka = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_it_listens(kafka, port, folder / "kafka.out")
            yield f"127.0.0.1:{port}"
        finally:
            kafka.kill()
            kafka.wait()


def _settings(log_dir: Path, port: int, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def _die_with_parent() -> list[str]:
    """A killed test run leaves no Kafka behind, where the system can promise that."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _wait_until_it_listens(kafka: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and kafka.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"Apache Kafka did not start:\n{output.read_text()[-4000:]}")
