"""`chronik cluster`: nodes on one machine that are started, watched, killed, restarted and stopped by command."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.client.cluster_view import view_of
from chronik.local_cluster.directory import ClusterDirectory
from chronik.shell.ports import free_ports
from tests.cli.clusters import NODES, Local
from tests.cli.conftest import Chronik, interrupt


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path / "cluster")
    yield made
    made.kill_all()


def test_a_cluster_starts_shows_itself_and_stops(local: Local) -> None:
    started = local.started()
    assert started["ready"] is True
    assert len(started["bootstrap"].split(",")) == NODES

    status = local.status()
    assert status["ready"] is True
    assert status["cluster_id"] == started["cluster_id"]
    assert status["controller"] in range(1, NODES + 1)
    assert status["partitions_without_leader"] == 0
    for number, node in enumerate(status["nodes"], 1):
        host, port = node["address"].split(":")
        assert (node["id"], node["alive"], node["in_cluster"]) == (number, True, True)
        os.kill(node["pid"], 0)
        assert len(view_of((host, int(port))).addresses) == NODES
        assert f"ready: Kafka clients at {node['address']}" in Path(node["log"]).read_text()
    assert [node["role"] for node in status["nodes"]].count("controller") == 1

    stopped = local.ok("stop").out.splitlines()
    assert sorted(stopped) == [f"node {number} stopped" for number in range(1, NODES + 1)]
    assert not any(node["alive"] for node in local.status()["nodes"])


def test_the_config_files_say_what_was_decided(local: Local) -> None:
    started = local.started("--set", "num.partitions=6", "--set", "min.insync.replicas=1")

    cluster = ClusterDirectory.open(str(local.path))
    for node in cluster.nodes.values():
        assert node.config.server.cluster_id == started["cluster_id"]
        assert node.config.topics.default_replication_factor == min(3, NODES)
        assert (node.config.topics.num_partitions, node.config.log.min_insync_replicas) == (6, 1)
        assert sorted(node.config.voters) == list(range(1, NODES + 1))


def test_a_stopped_cluster_starts_again_as_the_same(local: Local) -> None:
    before = local.started()
    local.ok("stop")

    again = local.ok("start", "--detach", "--json").json

    assert {key: again[key] for key in ("bootstrap", "cluster_id", "nodes")} == {
        key: before[key] for key in ("bootstrap", "cluster_id", "nodes")
    }
    host, port = again["bootstrap"].split(",")[0].split(":")
    assert view_of((host, int(port))).cluster_id == before["cluster_id"]


def test_a_node_is_killed_and_comes_back(local: Local) -> None:
    local.started()
    pid = local.status()["nodes"][0]["pid"]

    assert local.ok("kill", "1").out == f"killed node 1 (process {pid})\n"
    node = local.status()["nodes"][0]
    assert (node["alive"], node["pid"], node["in_cluster"]) == (False, None, False)
    assert local.refused("kill", "1") == "node 1 is not running; start it with `chronik cluster restart 1`"

    back = local.ok("restart", "1", "--json").json
    assert back["was_running"] is False
    again = local.ok("restart", "1", "--json").json
    assert again["was_running"] is True
    assert again["pid"] not in (pid, back["pid"])
    assert local.status()["ready"] is True


def test_a_cluster_in_the_foreground_shows_who_dies_and_ends_with_ctrl_c(local: Local) -> None:
    command = ["cluster", "start", "--no-console", "--nodes", str(NODES), "--port", "0", "--data-dir", str(local.path)]
    with local.chronik.running(*command) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready: 127.0.0.1:")
        assert process.stderr is not None
        assert process.stderr.readline() == b"Ctrl-C stops it\n"
        local.ok("kill", "2")
        assert process.stderr.readline().startswith(b"node 2 died, killed by SIGKILL; `chronik cluster restart 2")
        local.ok("restart", "2")
        assert process.stderr.readline() == b"node 2 is back\n"

        code, out, err = interrupt(process)

    assert code == 0, err
    assert "Traceback" not in err
    assert sorted(out.splitlines()[-NODES:]) == [f"node {number} stopped" for number in range(1, NODES + 1)]
    assert not any(node["alive"] for node in local.status()["nodes"])


def test_a_cluster_in_the_foreground_ends_when_it_is_stopped_from_elsewhere(local: Local) -> None:
    with local.chronik.running(
        "cluster", "start", "--no-console", "--nodes", "1", "--port", "0", "--data-dir", str(local.path)
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        local.ok("stop")
        _, err = process.communicate(timeout=60)

    assert process.returncode == 0
    assert err.decode().splitlines()[-2:] == ["node 1 was stopped", "no node runs any more"]


def test_a_port_in_use_is_refused_and_nothing_is_written(local: Local) -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port + 1)):
        error = local.refused("start", "--port", str(port), "--detach")

    assert error == (f"port {port + 1} on 127.0.0.1 is in use; stop what uses it, or give another --port, or --port 0")
    assert not local.path.exists()


def test_a_port_that_was_taken_since_is_refused_when_the_cluster_starts_again(local: Local) -> None:
    bootstrap = local.started(nodes=1)["bootstrap"]
    local.ok("stop")

    with socket.create_server(("127.0.0.1", int(bootstrap.partition(":")[2]))):
        error = local.refused("start", "--detach")

    assert "of node 1, is in use; stop what uses it, or change its port in every chronik.toml in" in error


def test_what_cannot_be_done_to_a_cluster_that_runs_is_said(local: Local) -> None:
    bootstrap = local.started(nodes=1)["bootstrap"]

    assert local.refused("start", "--detach") == (
        f"the cluster in {local.path} is running already; clients reach it at {bootstrap}"
    )
    assert local.refused("restart", "9") == f"the cluster in {local.path} has no node 9; its nodes are 1"


@pytest.mark.parametrize("command", ["status", "stop", "kill", "restart"])
def test_a_directory_without_a_cluster_is_an_error(local: Local, command: str) -> None:
    arguments = ["1"] if command in ("kill", "restart") else []

    assert local.refused(command, *arguments) == (
        f"there is no cluster in {local.path}: it does not exist; start one with "
        f"`chronik cluster start --data-dir {local.path}`, or give its directory with --data-dir"
    )


def test_a_cluster_that_is_there_is_not_made_into_another(local: Local) -> None:
    local.started(nodes=1)
    local.ok("stop")

    assert "has 1 node, not 5; leave out --nodes" in local.refused("start", "--nodes", "5")
    assert "not 1234; leave out --port" in local.refused("start", "--port", "1234")
    assert "with another num.partitions; change it in" in local.refused("start", "--set", "num.partitions=9")
    assert local.refused("stop").startswith(f"the cluster in {local.path} is not running; start it with")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "num.partition=3"], "did you mean num.partitions?"),
        (["--set", "num.partitions=three"], "must be a whole number"),
        (["--set", "num.partitions"], "is not KEY=VALUE"),
        (["--set", "node.id=4"], "a cluster decides it itself; nodes are numbered from 1"),
        (["--advertise", "nowhere:x"], "nowhere:x is not an address"),
    ],
)
def test_a_bad_wish_is_refused_and_nothing_is_written(local: Local, arguments: list[str], words: str) -> None:
    assert words in local.refused("start", "--port", "0", "--detach", *arguments)
    assert not local.path.exists()


def test_what_keeps_a_node_from_starting_is_said_with_its_log(local: Local) -> None:
    local.started(nodes=1)
    local.ok("stop")
    (local.path / "node-1" / "data" / "meta.properties").write_text("chronik.format=1\nnode.id=3\ncluster.id=x\n")

    error = local.refused("start", "--detach")

    assert error.startswith("node 1 did not start: the data directory")
    assert "it belongs to node 3, this is node 1" in error
    assert error.endswith(f"its log is {local.path}/node-1/node.log")


def test_a_node_is_added_gets_a_vote_and_is_removed_again_with_its_partitions_moved(local: Local) -> None:
    started = local.started()
    client = Chronik(started["bootstrap"])
    added = local.ok("add", "--json").json
    files = [path.read_text() for path in sorted(local.path.glob("node-*/*.toml"))]
    assert len(files) == 4
    assert all(",4@" in text and text.count("controller.quorum.voters") == 1 for text in files)
    assert (added["added"], added["voter"]) == (4, True)
    assert [node["id"] for node in local.status()["nodes"]] == [1, 2, 3, 4]
    client.ok("topic", "create", "orders", "--partitions", "4", "--replication", "3")
    client.ok("produce", "orders", "--count", "200")
    held = [
        part for part in client.ok("topic", "describe", "orders", "--json").json["partitions"] if 4 in part["replicas"]
    ]
    assert held

    assert f"node 4 still holds {len(held)} partition" in local.refused("remove", "4")
    removed = local.ok("remove", "4", "--move", "--json").json

    assert removed["moved_partitions"] == len(held)
    status = local.status()
    assert [node["id"] for node in status["nodes"]] == [1, 2, 3]
    assert status["ready"] is True
    partitions = client.ok("topic", "describe", "orders", "--json").json["partitions"]
    assert all(sorted(part["replicas"]) == [1, 2, 3] for part in partitions)
    assert sum(part["messages"] for part in partitions) == 200
    assert local.ok("add", "--observer", "--json").json["added"] == 5, "a number is never given twice"


def test_a_cluster_that_grew_starts_again_and_can_do_without_the_node_it_began_with(local: Local) -> None:
    local.started(nodes=1)
    local.ok("add")
    local.ok("stop")

    bootstrap = local.ok("start", "--detach", "--json").json["bootstrap"]
    Chronik(bootstrap).ok("topic", "create", "orders", "--replication", "2")
    Chronik(bootstrap).ok("produce", "orders", "--count", "10")
    removed = local.chronik.run("cluster", "remove", "1", "--move", "--data-dir", str(local.path))
    assert removed.code == 0, removed.err
    assert removed.err == "1 partition will have one replica less: there are not enough other nodes\n"
    local.ok("restart", "2")

    status = local.status()
    assert (status["ready"], status["controller"], [node["id"] for node in status["nodes"]]) == (True, 2, [2])
    (partition,) = Chronik(status["bootstrap"]).ok("topic", "describe", "orders", "--json").json["partitions"]
    assert (partition["replicas"], partition["messages"]) == ([2], 10)


def test_a_cluster_is_found_however_its_directory_is_written(local: Local) -> None:
    local.path = local.path.parent / "elsewhere" / ".." / local.path.name
    local.started(nodes=1)

    local.path = local.path.parent.parent.parent / local.path.name
    local.ok("stop")


def test_the_only_node_is_not_removed(local: Local) -> None:
    local.started(nodes=1)

    assert local.refused("remove", "1") == "node 1 is the only one; end the cluster with `chronik cluster stop`"


def test_a_cluster_that_does_not_run_takes_no_nodes_in(local: Local) -> None:
    local.started(nodes=1)
    local.ok("stop")

    assert local.refused("add").startswith(f"no node of the cluster in {local.path} answers; start it with")
    assert sorted(path.name for path in local.path.iterdir()) == ["cluster.json", "node-1"]
