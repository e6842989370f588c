"""`chronik cluster` on bad days: dead nodes, mistakes in config files, closed terminals, two at work at once."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from chronik.cli.output import print_note
from chronik.client.cluster_view import view_of
from chronik.client.request import ask
from chronik.core.errors import Code
from chronik.local_cluster import processes
from chronik.local_cluster.config import with_voters
from chronik.local_cluster.directory import STATE, ClusterDirectory
from chronik.local_cluster.files import held
from chronik.local_cluster.growing import take_back
from chronik.local_cluster.making import ClusterPlan, make
from chronik.local_cluster.processes import NotReady
from chronik.shell.interrupts import Interrupts
from chronik.shell.ports import free_ports
from tests.cli.clusters import NODES, Local, is_running
from tests.cli.conftest import Chronik, interrupt
from tests.cluster.support import wait_until

LATE_S = 1.0


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path / "cluster")
    yield made
    made.kill_all()


def made_without_majority(local: Local) -> ClusterDirectory:
    """One node that waits for two others, which never come."""
    cluster = make(str(local.path), ClusterPlan(1, 0, {}, None))
    (node,) = cluster.nodes.values()
    host, port = node.address
    voters = f"1@{host}:{port},2@{host}:{port + 1},3@{host}:{port + 2}"
    node.config_path.write_text(with_voters(node.config_path.read_text(), voters))
    return ClusterDirectory.open(str(local.path))


def damage(local: Local, number: int) -> Path:
    path = local.path / f"node-{number}" / "chronik.toml"
    path.write_text(path.read_text() + "num.partition = 3\n")
    return path


# --- dead nodes


def test_two_dead_nodes_are_brought_back_one_by_one(local: Local) -> None:
    client = Chronik(local.started()["bootstrap"])
    client.ok("topic", "create", "orders", "--partitions", "3", "--replication", "1")
    held_by = [part["replicas"] for part in client.ok("topic", "describe", "orders", "--json").json["partitions"]]
    assert sorted(held_by) == [[1], [2], [3]]
    local.ok("kill", "2")
    local.ok("kill", "3")

    assert local.ok("restart", "2", "--json").json["ready"] is True
    assert sorted(local.alive()) == [1, 2]
    # A controller that was just elected knows that node 3 is gone only when it has not been heard of for its session.
    wait_until(lambda: local.status()["partitions_without_leader"] == 1, "the partition of the dead node is missed")
    assert local.status()["ready"] is False
    assert local.ok("restart", "3", "--json").json["ready"] is True
    assert local.status()["ready"] is True


def test_a_node_that_cannot_be_ready_before_others_are_back_is_left_running(local: Local) -> None:
    local.started()
    for number in range(1, NODES + 1):
        local.ok("kill", str(number))

    alone = local.chronik.run("cluster", "restart", "1", "--data-dir", str(local.path))

    assert (alone.code, alone.out) == (1, "")
    assert alone.err.startswith("node 1 runs, but the cluster is not ready after 30 s: node 1 does not answer")
    assert sorted(local.alive()) == [1]
    assert local.ok("restart", "2", "--json").json["ready"] is True


def test_a_new_cluster_that_is_not_ready_in_time_is_ended_again(local: Local) -> None:
    cluster = made_without_majority(local)

    with pytest.raises(NotReady, match="not ready after 1 s: node 1 does not answer"):
        processes.launch(cluster, cluster.nodes.values(), Interrupts(), timeout_s=LATE_S)

    assert local.alive() == {}


# --- mistakes in config files


def test_a_mistake_in_the_file_of_one_node_is_told_and_all_are_shown_and_stopped(local: Local) -> None:
    local.started()
    path = damage(local, 2)
    before = local.alive()

    status = local.status()
    assert [node["pid"] for node in status["nodes"]] == list(before.values())
    assert [node["in_cluster"] for node in status["nodes"]] == [True] * NODES
    problems = [node["problem"] for node in status["nodes"]]
    assert problems[0] is problems[2] is None
    assert problems[1].startswith(f"the config file {path} of node 2 is wrong: Unknown node config name: num.partition")
    assert f"node 2 cannot be started again: {problems[1]}\n" in local.ok("status").out
    assert local.refused("restart", "2") == problems[1]
    assert local.alive() == before, "what cannot be started again is not stopped"

    assert len(local.ok("stop").out.splitlines()) == NODES
    assert local.alive() == {}
    assert [node["address"] is None for node in local.status()["nodes"]] == [False, True, False]
    assert local.refused("start", "--detach") == problems[1]


def test_a_cluster_in_the_foreground_does_not_mind_a_mistake_in_a_file(local: Local) -> None:
    command = ["cluster", "start", "--no-console", "--nodes", "2", "--port", "0", "--data-dir", str(local.path)]
    with local.chronik.running(*command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        assert process.stderr.readline() == b"Ctrl-C stops it\n"
        damage(local, 2)
        local.ok("kill", "1")
        assert process.stderr.readline().startswith(b"node 1 died, killed by SIGKILL")

        code, _, err = interrupt(process)

    assert (code, err) == (0, "")
    assert local.alive() == {}


def test_a_running_node_is_found_though_its_file_names_another_place_for_messages(local: Local) -> None:
    local.started(nodes=1)
    path = local.path / "node-1" / "chronik.toml"
    path.write_text(path.read_text().replace("node-1/data", "node-1/elsewhere"))

    assert local.status()["ready"] is True
    assert local.ok("stop").out == "node 1 stopped\n"


# --- closed terminals


@pytest.mark.usefixtures("hang_ups_count")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_cluster_in_the_foreground_ends_with_its_terminal(local: Local, number: signal.Signals) -> None:
    command = ["cluster", "start", "--no-console", "--nodes", "2", "--port", "0", "--data-dir", str(local.path)]
    with local.chronik.running(*command) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"Ctrl-C stops it\n"

        code, out, err = interrupt(process, number)

    assert (code, err) == (0, "")
    assert sorted(out.splitlines()[-2:]) == ["node 1 stopped", "node 2 stopped"]
    assert local.alive() == {}


@pytest.mark.usefixtures("hang_ups_count")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_start_that_is_broken_off_leaves_no_node_behind(local: Local, number: signal.Signals) -> None:
    made_without_majority(local)
    with local.chronik.running("cluster", "start", "--detach", "--data-dir", str(local.path)) as process:
        wait_until(lambda: bool(local.alive()), "a node that runs")
        (pid,) = local.alive().values()

        code, out, err = interrupt(process, number)

    assert code not in (0, -number)
    assert out == ""
    assert "Traceback" not in err
    assert not is_running(pid)


def test_a_cluster_in_the_foreground_does_not_outlive_who_reads_what_it_prints(local: Local) -> None:
    command = ["cluster", "start", "--no-console", "--nodes", "1", "--port", "0", "--data-dir", str(local.path)]
    with local.chronik.running(*command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        process.wait(60)

    wait_until(lambda: not local.alive(), "an end of the node")


# --- two at work at once


def test_whoever_changes_a_cluster_while_another_does_is_refused(local: Local) -> None:
    local.started(nodes=1)

    with held(str(local.path)):
        for command in (["add"], ["remove", "1"], ["start", "--detach"]):
            assert local.refused(*command) == (
                f"another `chronik cluster start`, `add` or `remove` is at work in {local.path}; "
                "try again when it has ended"
            )

    assert local.ok("add", "--observer", "--json").json["added"] == 2


def test_a_node_that_is_being_added_is_one_of_the_cluster_from_before_it_runs(local: Local) -> None:
    local.started(nodes=1)
    with local.chronik.running("cluster", "add", "--data-dir", str(local.path)) as process:
        wait_until((local.path / "node-2" / "node.log").exists, "the launch of the second node")
        assert json.loads((local.path / STATE).read_text())["nodes"] == [1, 2]
        _, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, b"")


def test_a_node_that_does_not_start_is_taken_back(local: Local) -> None:
    cluster_id = local.started(nodes=1)["cluster_id"]
    path = local.path / "node-1" / "chronik.toml"  # from which the new one takes its settings
    path.write_text(path.read_text().replace(cluster_id, "of-another-cluster-00"))

    assert local.refused("add").startswith("node 2 did not start: ")

    assert json.loads((local.path / STATE).read_text())["nodes"] == [1]
    assert sorted(path.name for path in local.path.iterdir()) == [STATE, "node-1"]


def test_a_node_that_has_joined_already_is_taken_back_and_forgotten(local: Local) -> None:
    bootstrap = local.started(nodes=1)["bootstrap"]
    cluster = ClusterDirectory.open(str(local.path))
    (port,) = free_ports(1)
    joining = {"listeners": f"127.0.0.1:{port}", "controller.quorum.bootstrap.servers": bootstrap}
    node = cluster.new_node(2, joining)
    cluster.save()
    launched = processes.launch(cluster, [node], Interrupts())
    first = cluster.node(1).address
    assert sorted(view_of(first).addresses) == [1, 2]

    take_back(cluster, node, print_note)

    # It gives back its lock, by which it is known, a moment before it ends.
    wait_until(lambda: launched[2].ended() is not None, "the process has ended")
    assert launched[2].ended() == 0
    assert sorted(local.alive()) == [1]
    assert sorted(view_of(first).addresses) == [1]
    assert ask(first, UnregisterBrokerRequest(broker_id=2)).error_code == Code.BROKER_ID_NOT_REGISTERED
    assert json.loads((local.path / STATE).read_text())["nodes"] == [1]
    assert sorted(path.name for path in local.path.iterdir()) == [STATE, "node-1"]
