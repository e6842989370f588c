"""`chronik serve`: it starts with no arguments, ends on Ctrl-C, and says in one line why it cannot start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from chronik.shell.ports import free_ports
from tests.cli.conftest import COMMAND

FREE = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    # The terminal's Ctrl-C reaches a shell's children; a parent that ignores it would hand that on.
    return subprocess.Popen([*COMMAND, "serve", *arguments], cwd=folder, stderr=subprocess.PIPE, env=os.environ)


def wait_until_ready(process: subprocess.Popen[bytes]) -> str:
    """The address in the line that says it is ready."""
    assert process.stderr is not None
    printed = b""
    for line in process.stderr:
        printed += line
        if found := re.search(rb"ready: Kafka clients at (\S+:\d+)", line):
            return found[1].decode()
    raise AssertionError(f"it never was ready: {printed.decode()}")


def refused(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*COMMAND, "serve", *arguments], cwd=folder, capture_output=True, timeout=60, check=False)
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert "Traceback" not in error
    lines = [line for line in error.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, error
    return lines[0].removeprefix("error: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_starts_in_its_default_directory_and_ends_cleanly_on_ctrl_c(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, *FREE)
    try:
        address = wait_until_ready(process)
        host, port = address.split(":")
        socket.create_connection((host, int(port)), timeout=5).close()

        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()

    assert process.returncode == 0
    assert b"Traceback" not in error
    assert (tmp_path / "chronik-data").is_dir()


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        kafka = refused(tmp_path, "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0")
        http = refused(tmp_path, "--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{port}")

    stop = f"port {port} on 127.0.0.1 is in use; stop what uses it, or give another address with"
    assert kafka == f"{stop} --listen HOST:PORT"
    assert http == f"{stop} --http HOST:PORT"


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    process = start(tmp_path, *FREE, "--data-dir", "mine")
    try:
        wait_until_ready(process)
        error = refused(tmp_path, *FREE, "--data-dir", "mine")
    finally:
        process.kill()
        process.communicate()

    assert error == (
        f"the data directory mine is in use by another node, process {process.pid}; "
        "stop that node, or give this one its own with --data-dir"
    )


def test_a_data_directory_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    properties = tmp_path / "newer" / "meta.properties"
    properties.parent.mkdir()
    properties.write_text("version=1\ncluster.id=x\nnode.id=1\nchronik.format=99\n")

    error = refused(tmp_path, *FREE, "--data-dir", "newer")

    assert "the data directory newer cannot be used: it has format 99" in error
    assert error.endswith("give another one with --data-dir")
    assert properties.read_text().endswith("chronik.format=99\n")


def test_a_data_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    process = start(tmp_path, *FREE)
    try:
        wait_until_ready(process)
        process.terminate()
        process.communicate(timeout=30)
    finally:
        process.kill()

    assert "it belongs to node 1, this is node 2" in refused(tmp_path, *FREE, "--node-id", "2")


def test_a_data_directory_of_another_cluster_is_refused_and_left_alone(tmp_path: Path) -> None:
    process = start(tmp_path, *FREE, "--set", "cluster.id=the-one")
    try:
        wait_until_ready(process)
        process.terminate()
        process.communicate(timeout=30)
    finally:
        process.kill()
    properties = tmp_path / "chronik-data" / "meta.properties"
    before = properties.read_bytes()

    error = refused(tmp_path, *FREE, "--set", "cluster.id=the-other")

    assert error == (
        "the data directory chronik-data cannot be used: it belongs to the cluster the-one, this node to the-other "
        "(cluster.id); give another one with --data-dir"
    )
    assert properties.read_bytes() == before


def test_a_node_that_waits_for_the_others_of_its_cluster_is_not_ready(
    tmp_path: Path,
) -> None:
    """A node that waits for the others of its cluster is not ready and ends cleanly on ctrl c."""
    port, other, http = free_ports(3)
    voters = f"controller.quorum.voters=1@127.0.0.1:{port},2@127.0.0.1:{other}"
    where = ("--listen", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{http}")
    process = start(tmp_path, *where, "--set", voters, "--set", "cluster.id=a-cluster")
    try:
        assert process.stderr is not None
        said = next((line for line in process.stderr if b"cannot be reached" in line), b"")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{http}/ready", timeout=10)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()

    assert f"node 2 at 127.0.0.1:{other} cannot be reached".encode() in said
    with refused.value as answer:
        assert (answer.status, json.load(answer)["status"]) == (503, "not ready")
    assert process.returncode == 0
    assert b"Traceback" not in error


VOTERS = "controller.quorum.voters=1@127.0.0.1:9092,2@127.0.0.1:9093"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", VOTERS], "cluster.id is missing: give all nodes of the cluster the same"),
        (["--set", VOTERS, "--node-id", "2"], "says that node 2 is at 127.0.0.1:9093, but it listens on port 9092"),
        (["--set", "controller.quorum.voters=here"], "'here' is not ID@HOST:PORT"),
        (["--set", "controller.quorum.voters=1@a:1,1@b:1"], "node 1 is named twice"),
        (["--set", "controller.quorum.voters=1@a:1,2@a:1"], "two nodes have the same address"),
    ],
    ids=["no cluster id", "another's address", "no voters", "one node twice", "one address twice"],
)
def test_a_node_of_a_cluster_that_is_set_up_wrongly_is_refused(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    assert expected in refused(tmp_path, *arguments)
    assert not (tmp_path / "chronik-data").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "num.partition=3"], "num.partition; did you mean num.partitions?"),
        (["--set", "num.partitions=three"], "Invalid value 'three' for num.partitions: must be a whole number"),
        (["--set", "num.partitions"], "--set num.partitions is not KEY=VALUE"),
        (["--listen", "nowhere"], "Invalid value 'nowhere' for listeners: must be HOST:PORT"),
        (["--config", "nothing.toml"], "the config file nothing.toml cannot be read"),
        (["--config", "broken.toml"], "the config file broken.toml is not well formed"),
        (["--config", "server.properties"], "num.partitons; did you mean num.partitions?"),
        (["--node-id", "one"], "Invalid value 'one' for node.id"),
        (["--data-dir", "one,two"], "Invalid value 'one,two' for log.dirs: must be one directory"),
        (["--data-dir", "server.properties"], "the data directory server.properties cannot be used"),
    ],
)
def test_a_bad_setting_is_refused_with_what_to_do(tmp_path: Path, arguments: list[str], expected: str) -> None:
    (tmp_path / "broken.toml").write_text("num.partitions = [\n")
    (tmp_path / "server.properties").write_text("num.partitons=3\n")

    error = refused(tmp_path, *arguments)

    assert expected in error
    assert error.count("did you mean") <= 1


def test_settings_of_a_file_count_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text('listeners = "nowhere"\n[log]\ndirs = "of-the-file"\n')
    process = start(tmp_path, "--config", "server.toml", *FREE)
    try:
        wait_until_ready(process)
    finally:
        process.kill()
        process.communicate()

    assert (tmp_path / "of-the-file").is_dir()
    assert not (tmp_path / "chronik-data").exists()
