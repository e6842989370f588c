"""What keeps one user from touching another user's nodes is said in words."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.client.errors import ChronikError
from chronik.local_cluster import processes
from chronik.local_cluster.directory import ClusterDirectory, ClusterNode
from chronik.shell.data_dir import LOCK, DataDirLock
from tests.unit.local_cluster.other_users import as_somebody, process_of_another


@pytest.fixture
def node() -> Iterator[ClusterNode]:
    """In a directory that everybody may look into, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="chronik-test-") as name:
        os.chmod(name, 0o755)
        yield ClusterDirectory(Path(name), "a-cluster").new_node(2, {})


def test_the_process_of_another_user_is_named_with_its_owner(node: ClusterNode) -> None:
    data_dir = node.data_dir
    lock = DataDirLock(data_dir)
    with process_of_another() as pid:
        Path(data_dir, LOCK).write_bytes(b"%-19d\n" % pid)

        with as_somebody(), pytest.raises(ChronikError) as caught:
            processes.send(node, signal.SIGWINCH)  # which would harm nobody

    lock.release()
    assert f"node 2, process {pid}, belongs to user " in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("run this as ")


def test_a_data_directory_that_may_not_be_looked_into_is_named(node: ClusterNode) -> None:
    DataDirLock(node.data_dir).release()
    os.chmod(node.data_dir, 0)

    with as_somebody(), pytest.raises(ChronikError, match=rf"node-2/data/{LOCK} .*: Permission denied; "):
        node.pid()

    os.chmod(node.data_dir, 0o755)


def test_a_log_that_may_not_be_written_to_is_named_and_nothing_is_started(node: ClusterNode) -> None:
    node.log_path.write_text("")
    node.log_path.chmod(0o444)
    os.chmod(node.directory, 0o777)

    with as_somebody(), pytest.raises(ChronikError, match=r"node-2/node\.log .*: Permission denied; "):
        processes.Launched(node)

    assert node.log_path.read_text() == ""


def test_a_node_directory_that_may_not_be_written_to_is_named(node: ClusterNode) -> None:
    os.chmod(node.directory, 0o555)

    with as_somebody(), pytest.raises(ChronikError, match=r"/node-2 .*: Permission denied; "):
        processes.Launched(node)

    os.chmod(node.directory, 0o755)
