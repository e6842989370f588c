"""The cluster in child processes that other people's tests use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chronik.client.cluster_view import view_of
from chronik.client.request import NoAnswer
from chronik.testing import NodeDied, cluster


def test_a_cluster_of_one_is_a_cluster(tmp_path: Path) -> None:
    with cluster(nodes=1, data_dir=str(tmp_path)) as running:
        assert running.bootstrap == running.nodes[1].bootstrap
        assert list(running.view(1).addresses.values()) == [("127.0.0.1", running.nodes[1].port)]
        assert running.controller_id() == 1

    assert (tmp_path / "node-1" / "meta.properties").exists()


def test_a_killed_node_comes_back_and_nothing_is_left_at_the_end() -> None:
    with cluster(nodes=1) as running:
        running.kill(1)
        assert running.running() == {}
        with pytest.raises(NoAnswer):
            running.view(1)

        running.start()
        running.restart(1)
        directory, pid = running.nodes[1].data_dir, running.nodes[1].pid
        assert running.view(1).is_whole([1])

    assert not os.path.exists(directory)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_paused_node_goes_on_where_it_was_and_can_be_stopped_while_it_is_paused() -> None:
    with cluster(nodes=1) as running:
        running.pause(1)
        with pytest.raises(NoAnswer):
            view_of((running.nodes[1].host, running.nodes[1].port), timeout_s=0.1)
        running.resume(1)
        assert running.view(1).is_whole([1])

        running.pause(1)
        running.stop()


def test_what_keeps_a_node_from_starting_is_in_the_exception() -> None:
    with pytest.raises(NodeDied, match=r"num\.partitions"), cluster(settings={"num.partition": "3"}):
        pytest.fail("it started with a setting that does not exist")


def test_three_nodes_are_one_cluster_wherever_it_is_asked() -> None:
    with cluster(nodes=3) as running:
        for node_id, node in running.nodes.items():
            view = running.view(node_id)
            assert view.is_whole([1, 2, 3])
            assert view.cluster_id == running.cluster_id
            assert view.addresses[node_id] == (node.host, node.port)
        assert running.controller_id() in (1, 2, 3)


def test_a_cluster_goes_on_without_one_of_its_nodes_and_takes_it_back() -> None:
    with cluster(nodes=3) as running:
        running.kill(2)
        assert list(running.running()) == [1, 3]
        running.wait_until_ready()

        running.restart(2)
        running.wait_until_ready()

        assert running.view(2).is_whole([1, 2, 3])


def test_a_further_node_joins() -> None:
    with cluster(nodes=3) as running:
        added = running.add()
        running.wait_until_ready()

        assert running.nodes[4] is added
        assert running.view(1).is_whole([1, 2, 3, 4])
