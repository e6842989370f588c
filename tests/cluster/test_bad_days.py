"""What people get wrong: each is said in words, with exit code 2, and nothing that was there is touched."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from chronik.shell.ports import free_ports
from chronik.testing import RunningCluster, node
from tests.cluster.support import create_topic, wait_until_told_truly
from tests.recovery.ledger import send

BAD_INPUT = 2
OTHER_CLUSTER = "AnotherClusterAltogethr"
PATIENCE_S = 60.0


def serve(data_dir: Path, port: int, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A node that is expected to end by itself."""
    command = [sys.executable, "-m", "chronik", "serve", "--data-dir", str(data_dir), "--http", "127.0.0.1:0"]
    command += ["--listen", f"127.0.0.1:{port}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as late:
        printed = (late.stderr or b"").decode() if isinstance(late.stderr, bytes) else late.stderr
        pytest.fail(f"it runs, and should not:\n{printed}")


def check_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == BAD_INPUT, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def fingerprint(directory: Path) -> dict[str, str]:
    """Every file and what is in it; but for the lock, which only says who looked last."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and "lock" not in path.name and path.name != "node.log"
    }


@pytest.fixture
def joining(cluster: RunningCluster) -> dict[str, str]:
    """Settings of a further node of the cluster."""
    return {
        "cluster.id": cluster.cluster_id,
        "node.id": "4",
        "controller.quorum.bootstrap.servers": cluster.bootstrap,
    }


def test_two_nodes_with_one_id(cluster: RunningCluster, joining: dict[str, str], tmp_path: Path) -> None:
    topic = create_topic(cluster.bootstrap)
    taken = cluster.nodes[2]

    done = serve(tmp_path / "second", free_ports(1)[0], joining | {"node.id": "2"})

    check_refused(done, "2", taken.bootstrap)
    assert fingerprint(tmp_path / "second") == {}  # so that it may be another node's
    wait_until_told_truly(cluster, topic)
    assert taken.is_running


def test_a_copy_of_the_data_directory_of_a_node_that_lives(own_cluster: RunningCluster, tmp_path: Path) -> None:
    live = own_cluster.add()  # it does not vote: nobody's configuration says where it is
    own_cluster.wait_until_ready()
    topic = create_topic(own_cluster.bootstrap)
    shutil.copytree(live.data_dir, tmp_path / "copy")
    settings = {"node.id": "4", "cluster.id": own_cluster.cluster_id, "broker.session.timeout.ms": "1000"}
    settings["controller.quorum.bootstrap.servers"] = own_cluster.bootstrap

    done = serve(tmp_path / "copy", free_ports(1)[0], settings)

    check_refused(done, "another node with id 4 is alive", live.bootstrap)
    wait_until_told_truly(own_cluster, topic)
    assert live.is_running


def test_a_data_directory_that_another_node_uses(cluster: RunningCluster) -> None:
    used = cluster.nodes[2]
    done = serve(Path(used.data_dir), free_ports(1)[0], {})

    check_refused(done, used.data_dir)
    assert used.is_running


def test_a_data_directory_of_another_cluster(cluster: RunningCluster, joining: dict[str, str], tmp_path: Path) -> None:
    directory = tmp_path / "other"
    with node({"node.id": "4", "cluster.id": OTHER_CLUSTER}, data_dir=str(directory)) as other:
        send(other.bootstrap, "precious", b"record")
    before = fingerprint(directory)

    done = serve(directory, free_ports(1)[0], joining)

    check_refused(done, OTHER_CLUSTER, cluster.cluster_id)
    assert fingerprint(directory) == before


def test_a_data_directory_of_another_node(own_cluster: RunningCluster) -> None:
    send(own_cluster.bootstrap, create_topic(own_cluster.bootstrap), b"kept")
    third = own_cluster.nodes[3]
    third.stop()
    before = fingerprint(Path(third.data_dir))

    swapped = {"node.id": "4", "cluster.id": own_cluster.cluster_id}
    swapped["controller.quorum.bootstrap.servers"] = own_cluster.bootstrap
    done = serve(Path(third.data_dir), free_ports(1)[0], swapped)

    check_refused(done, "3", "4", third.data_dir)
    assert fingerprint(Path(third.data_dir)) == before
    third.start()


def test_a_node_that_says_it_is_of_another_cluster_than_those_it_joins(
    cluster: RunningCluster, joining: dict[str, str], tmp_path: Path
) -> None:
    done = serve(tmp_path / "new", free_ports(1)[0], joining | {"cluster.id": OTHER_CLUSTER})

    check_refused(done, OTHER_CLUSTER, cluster.cluster_id)
    assert fingerprint(tmp_path / "new") == {}


def test_a_port_that_is_taken(cluster: RunningCluster, joining: dict[str, str], tmp_path: Path) -> None:
    done = serve(tmp_path / "new", cluster.nodes[1].port, joining)

    check_refused(done, str(cluster.nodes[1].port))
    assert fingerprint(tmp_path / "new") == {}


def test_a_config_that_names_its_own_port_wrongly(tmp_path: Path) -> None:
    mine, named, other = free_ports(3)
    voters = f"1@127.0.0.1:{named},2@127.0.0.1:{other}"
    settings = {"node.id": "1", "cluster.id": "SomeClusterOfThisTests", "controller.quorum.voters": voters}

    done = serve(tmp_path / "new", mine, settings)

    check_refused(done, "controller.quorum.voters", str(named), str(mine), "node.id")
    assert fingerprint(tmp_path) == {}


def test_a_config_that_names_its_own_host_wrongly(tmp_path: Path) -> None:
    """Copied from the other machine, and the id forgotten: node 1's address leads to the node itself."""
    (port,) = free_ports(1)
    voters = f"1@127.0.0.1:{port},2@127.0.0.2:{port}"
    settings = {"node.id": "2", "cluster.id": "SomeClusterOfThisTests", "controller.quorum.voters": voters}

    done = serve(tmp_path / "new", port, settings)

    check_refused(done, "controller.quorum.voters", "node.id")


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Something that listens and says the same to everybody. Gives its port."""
    (port,) = free_ports(1)
    listener = socket.create_server(("127.0.0.1", port))

    def serve_all() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(4096)
                connection.sendall(answer.replace(b"IDID", asked[8:12]))

    thread = threading.Thread(target=serve_all)
    thread.start()
    try:
        yield port
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def api_versions_of_a_stranger() -> bytes:
    """An ApiVersions answer (v3) of a node that knows Produce and nothing else."""
    body = b"IDID" + b"\x00\x00" + b"\x02" + b"\x00\x00\x00\x00\x00\x02\x00" + b"\x00\x00\x00\x00" + b"\x00"
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("answer", "words"),
    [(api_versions_of_a_stranger(), ("version",)), (b"HTTP/1.1 400 Bad Request\r\n\r\n", ())],
    ids=["another version", "no Kafka at all"],
)
def test_a_peer_of_another_version(tmp_path: Path, answer: bytes, words: tuple[str, ...]) -> None:
    with answering(answer) as peer_port:
        (port,) = free_ports(1)
        voters = f"1@127.0.0.1:{port},2@127.0.0.1:{peer_port}"
        settings = {"node.id": "1", "cluster.id": "SomeClusterOfThisTests", "controller.quorum.voters": voters}

        done = serve(tmp_path / "new", port, settings)

    check_refused(done, f"127.0.0.1:{peer_port}", *words)
    assert fingerprint(tmp_path / "new") == {}
