"""The directory of a local cluster: made, found again, and never mistaken for something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chronik.cli.cluster_directory import STATE, ClusterDirectory, as_toml
from chronik.cli.errors import CliError
from chronik.core.config.parse import parse_toml
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
    assert (second.config.node_id, second.config.cluster_id) == (2, "a-cluster-of-one-laptop")


def test_what_a_user_changes_in_a_config_file_counts(tmp_path: Path) -> None:
    made(tmp_path, 1)
    path = tmp_path / "node-1" / "chronik.toml"
    path.write_text(path.read_text().replace("127.0.0.1:9092", "0.0.0.0:1234"))

    assert ClusterDirectory.open(str(tmp_path)).node(1).address == ("127.0.0.1", 1234)


def test_a_config_file_that_a_user_broke_is_named(tmp_path: Path) -> None:
    made(tmp_path, 1)
    (tmp_path / "node-1" / "chronik.toml").write_text("listeners = [\n")

    with pytest.raises(CliError, match=r"node-1/chronik\.toml is not well formed.*config of node 1"):
        _ = ClusterDirectory.open(str(tmp_path)).node(1).address


def test_a_node_is_alive_while_its_data_directory_is_locked(tmp_path: Path) -> None:
    cluster = made(tmp_path, 1, 2)
    assert cluster.alive() == {}

    lock = DataDirLock(cluster.node(2).data_dir)
    assert list(cluster.alive()) == [2]
    lock.release()

    assert cluster.alive() == {}


def test_an_unknown_node_is_an_error_that_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="has no node 7; its nodes are 1, 2"):
        made(tmp_path, 1, 2).node(7)


def test_a_new_and_an_empty_directory_have_no_cluster_yet(tmp_path: Path) -> None:
    assert ClusterDirectory.find(str(tmp_path)) is None
    assert ClusterDirectory.find(str(tmp_path / "new")) is None
    with pytest.raises(CliError, match="it does not exist; start one with"):
        ClusterDirectory.open(str(tmp_path / "new"))


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(CliError, match="holds something else: photos"):
        ClusterDirectory.find(str(tmp_path))

    (tmp_path / "meta.properties").write_text("node.id=1\n")
    with pytest.raises(CliError, match="the messages of a single node"):
        ClusterDirectory.find(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "nodes": ["x"]}'])
def test_a_damaged_state_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).write_text(text)

    with pytest.raises(CliError, match="is damaged or not chronik's"):
        ClusterDirectory.find(str(tmp_path))


def test_a_state_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 1)
    state = json.loads((tmp_path / STATE).read_text())
    (tmp_path / STATE).write_text(json.dumps(state | {"format": 2}))

    with pytest.raises(CliError, match="has format 2, this version knows format 1"):
        ClusterDirectory.find(str(tmp_path))


def test_a_cluster_that_was_moved_is_refused_for_its_messages_are_elsewhere(tmp_path: Path) -> None:
    made(tmp_path / "old", 1)
    (tmp_path / "old").rename(tmp_path / "new")

    with pytest.raises(CliError, match=r"was made in .*old; move it back"):
        ClusterDirectory.find(str(tmp_path / "new"))


def test_a_bad_setting_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    cluster = ClusterDirectory(tmp_path / "new", "a-cluster")

    with pytest.raises(CliError, match=r"did you mean num\.partitions\?"):
        cluster.new_node(1, {"num.partition": "3"})

    assert not (tmp_path / "new").exists()


def test_a_config_file_reads_back_as_it_was_written() -> None:
    settings = {
        "node.id": "1",
        "auto.create.topics.enable": "false",
        "log.dirs": 'a "quoted" \\ path, mit Umlaut: ä',
        "broker.rack": "007",
        "controller.quorum.voters": "1@127.0.0.1:9092,2@127.0.0.1:9093",
    }

    text = as_toml(1, settings)

    assert parse_toml(text) == settings
    assert "node.id = 1\n" in text
    assert "auto.create.topics.enable = false\n" in text
