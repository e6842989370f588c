"""The directory of a local cluster: made, found again, and never mistaken for something else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from chronik.client.errors import ChronikError
from chronik.local_cluster.directory import STATE, ClusterDirectory, address_or_none
from chronik.shell.data_dir import DataDirLock


def made(path: Path, *numbers: int) -> ClusterDirectory:
    """A cluster of nodes that have never been started."""
    cluster = ClusterDirectory(path, "a-cluster-of-one-laptop")
    for number in numbers:
        cluster.new_node(
            number, {"listeners": f"127.0.0.1:{9091 + number}", "http.address": f"127.0.0.1:{9643 + number}"}
        )
    cluster.save()
    return cluster


def test_a_cluster_is_found_again_as_it_was_made(tmp_path: Path) -> None:
    made(tmp_path, 1, 2, 3)

    found = ClusterDirectory.open(str(tmp_path))

    assert found.cluster_id == "a-cluster-of-one-laptop"
    assert found.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    second = found.node(2)
    assert second.http == "http://127.0.0.1:9645"
    assert second.data_dir == str(tmp_path / "node-2" / "data")
    assert (second.config.node_id, second.config.server.cluster_id) == (2, "a-cluster-of-one-laptop")


def test_what_a_user_changes_in_a_config_file_counts(tmp_path: Path) -> None:
    made(tmp_path, 1)
    path = tmp_path / "node-1" / "chronik.toml"
    path.write_text(path.read_text().replace("127.0.0.1:9092", "0.0.0.0:1234"))

    assert ClusterDirectory.open(str(tmp_path)).node(1).address == ("127.0.0.1", 1234)


def test_a_config_file_that_a_user_broke_is_named(tmp_path: Path) -> None:
    made(tmp_path, 1)
    (tmp_path / "node-1" / "chronik.toml").write_text("listeners = [\n")

    with pytest.raises(ChronikError, match=r"node-1/chronik\.toml is not well formed.*config of node 1"):
        _ = ClusterDirectory.open(str(tmp_path)).node(1).address


def test_a_node_is_alive_while_its_data_directory_is_locked(tmp_path: Path) -> None:
    cluster = made(tmp_path, 1, 2)
    assert cluster.alive() == {}

    lock = DataDirLock(cluster.node(2).data_dir)
    assert list(cluster.alive()) == [2]
    lock.release()

    assert cluster.alive() == {}


def test_an_unknown_node_is_an_error_that_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ChronikError, match="has no node 7; its nodes are 1, 2"):
        made(tmp_path, 1, 2).node(7)


def test_a_new_and_an_empty_directory_have_no_cluster_yet(tmp_path: Path) -> None:
    assert ClusterDirectory.find(str(tmp_path)) is None
    assert ClusterDirectory.find(str(tmp_path / "new")) is None
    with pytest.raises(ChronikError, match="it does not exist; start one with"):
        ClusterDirectory.open(str(tmp_path / "new"))


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(ChronikError, match="holds something else: photos"):
        ClusterDirectory.find(str(tmp_path))

    (tmp_path / "meta.properties").write_text("node.id=1\n")
    with pytest.raises(ChronikError, match="the messages of a single node"):
        ClusterDirectory.find(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "nodes": ["x"]}'])
def test_a_damaged_state_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).write_text(text)

    with pytest.raises(ChronikError, match="is damaged or not chronik's"):
        ClusterDirectory.find(str(tmp_path))


def test_a_state_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 1)
    state = json.loads((tmp_path / STATE).read_text())
    (tmp_path / STATE).write_text(json.dumps(state | {"format": 2}))

    with pytest.raises(ChronikError, match="has format 2, this version knows format 1"):
        ClusterDirectory.find(str(tmp_path))


def test_a_cluster_that_was_moved_is_refused_for_its_messages_are_elsewhere(tmp_path: Path) -> None:
    made(tmp_path / "old", 1)
    (tmp_path / "old").rename(tmp_path / "new")

    with pytest.raises(ChronikError, match=r"was made in .*old; move it back"):
        ClusterDirectory.find(str(tmp_path / "new"))


def test_a_bad_setting_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    cluster = ClusterDirectory(tmp_path / "new", "a-cluster")

    with pytest.raises(ChronikError, match=r"did you mean num\.partitions\?"):
        cluster.new_node(1, {"num.partition": "3"})

    assert not (tmp_path / "new").exists()


def test_a_running_node_is_found_whatever_has_become_of_its_config_file(tmp_path: Path) -> None:
    node = made(tmp_path, 1).node(1)
    node.note_launch()
    lock = DataDirLock(node.data_dir)

    for text in ("listeners = [\n", 'node.id = 1\nlisteners = "127.0.0.1:1"\nlog.dirs = "/elsewhere"\n'):
        node.config_path.write_text(text)
        again = ClusterDirectory.open(str(tmp_path)).node(1)
        assert again.pid() == os.getpid()
        assert (again.address, again.http) == (("127.0.0.1", 9092), "http://127.0.0.1:9644")
        assert again.data_dir == str(tmp_path / "node-1" / "data")

    lock.release()
    assert again.pid() is None
    assert again.address == ("127.0.0.1", 1)  # as it will be started


def test_a_node_of_an_older_version_is_found(tmp_path: Path) -> None:
    """A node of an older version is found where its messages are from the beginning."""
    node = made(tmp_path, 1).node(1)
    lock = DataDirLock(node.data_dir)

    node.config_path.write_text("listeners = [\n")
    again = ClusterDirectory.open(str(tmp_path)).node(1)

    assert again.pid() == os.getpid()
    assert address_or_none(again) is None
    lock.release()


def test_a_node_that_was_started_by_hand_after_its_file_was_changed_is_found(tmp_path: Path) -> None:
    node = made(tmp_path, 1).node(1)
    node.note_launch()
    node.config_path.write_text(f'node.id = 1\nlog.dirs = "{tmp_path}/moved"\n')

    lock = DataDirLock(str(tmp_path / "moved"))

    again = ClusterDirectory.open(str(tmp_path)).node(1)
    assert (again.pid(), again.data_dir) == (os.getpid(), f"{tmp_path}/moved")
    lock.release()


def test_a_copy_of_a_cluster_does_not_take_the_nodes_of_the_first_for_its_own(tmp_path: Path) -> None:
    node = made(tmp_path / "first", 1).node(1)
    node.note_launch()
    lock = DataDirLock(node.data_dir)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    for name in (STATE, "node-1/chronik.toml"):
        path = tmp_path / "copy" / name
        path.write_text(path.read_text().replace(str(tmp_path / "first"), str(tmp_path / "copy")))

    assert ClusterDirectory.open(str(tmp_path / "copy")).alive() == {}
    lock.release()


def test_a_mistyped_setting_is_named_with_its_file_and_the_right_name_once(tmp_path: Path) -> None:
    made(tmp_path, 1, 2)
    with open(tmp_path / "node-2" / "chronik.toml", "a", encoding="utf-8") as config:
        config.write("num.partition = 3\n")

    cluster = ClusterDirectory.open(str(tmp_path))

    problem = cluster.node(2).problem()
    assert problem is not None
    assert problem.startswith(f"the config file {tmp_path}/node-2/chronik.toml of node 2 is wrong: Unknown node config")
    assert problem.count("did you mean num.partitions?") == 1
    assert cluster.node(1).problem() is None
    assert cluster.bootstrap == "127.0.0.1:9092"


def test_voters_are_written_to_every_file_with_the_addresses_in_the_files(tmp_path: Path) -> None:
    cluster = made(tmp_path, 1, 2)
    first = tmp_path / "node-1" / "chronik.toml"
    first.write_text(first.read_text() + "[num]\npartitions = 5\n")

    assert cluster.write_voters({1: ("stale", 1), 2: None}) == []

    for node in ClusterDirectory.open(str(tmp_path)).nodes.values():
        assert node.config.voters == {1: ("127.0.0.1", 9092), 2: ("127.0.0.1", 9093)}
    assert ClusterDirectory.open(str(tmp_path)).node(1).config.topics.num_partitions == 5


def test_a_file_that_cannot_be_changed_is_told_and_the_others_are_changed(tmp_path: Path) -> None:
    made(tmp_path, 1, 2)
    broken = tmp_path / "node-2" / "chronik.toml"
    broken.write_text("listeners = [\n")
    cluster = ClusterDirectory.open(str(tmp_path))

    (problem,) = cluster.write_voters({1: None, 2: ("127.0.0.1", 9093)})

    assert problem.startswith(f"the config file {broken} of node 2 is left as it is: Not valid TOML")
    assert problem.endswith('see that it says controller.quorum.voters = "1@127.0.0.1:9092,2@127.0.0.1:9093"')
    assert broken.read_text() == "listeners = [\n"
    assert sorted(ClusterDirectory.open(str(tmp_path)).node(1).config.voters) == [1, 2]
