"""The node in a child process that other people's tests use."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from chronik.testing import NodeDied, RunningNode, node

START_CPU_S_MAX = 1.2  # on an idle machine it is a third of that


def is_listening(running: RunningNode) -> bool:
    try:
        with socket.create_connection((running.host, running.port), timeout=5):
            return True
    except ConnectionRefusedError:
        return False


def cpu_s(pid: int) -> float:
    """What a process has used of the processor so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_node_needs_little_to_start(record_property: Callable[[str, object], None]) -> None:
    """In processor time, because how long it takes is a matter of what else runs; `make bench` measures that."""
    used_s: list[float] = []
    for _ in range(3):
        with node() as running:
            used_s.append(cpu_s(running.pid))
            assert is_listening(running)
    record_property("start_cpu_s", min(used_s))

    assert min(used_s) < START_CPU_S_MAX, f"the least of {used_s} seconds is much"


def test_a_node_is_gone_with_its_directory_after_the_block() -> None:
    with node() as running:
        directory, pid = running.data_dir, running.pid
        assert os.path.isdir(directory)

    assert not os.path.exists(directory)
    assert not is_listening(running)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_node_is_gone_also_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), node() as running:
        1 / 0

    assert not is_listening(running)
    assert not os.path.exists(running.data_dir)


def test_a_directory_that_was_given_is_kept(tmp_path: Path) -> None:
    with node(data_dir=str(tmp_path / "data")):
        pass

    assert (tmp_path / "data" / "meta.properties").exists()


def test_two_nodes_have_ports_and_directories_of_their_own() -> None:
    with node() as one, node() as other:
        assert one.bootstrap != other.bootstrap
        assert one.data_dir != other.data_dir
        assert is_listening(one)
        assert is_listening(other)


def test_a_killed_node_comes_back_on_its_port() -> None:
    with node() as running:
        bootstrap, pid = running.bootstrap, running.pid

        running.kill()
        assert not is_listening(running)
        running.start()

        assert running.bootstrap == bootstrap
        assert running.pid != pid
        assert is_listening(running)


def test_a_node_that_is_stopped_ends_with_code_0_and_a_restart_keeps_its_port() -> None:
    with node() as running:
        bootstrap = running.bootstrap

        assert running.stop() == 0
        assert not is_listening(running)
        running.start()
        running.restart()

        assert running.bootstrap == bootstrap
        assert is_listening(running)


def test_a_node_takes_settings_under_kafkas_names(tmp_path: Path) -> None:
    with node(config={"node.id": "42"}, data_dir=str(tmp_path)) as running:
        assert is_listening(running)

    assert "node.id=42" in (tmp_path / "meta.properties").read_text()


def test_what_keeps_a_node_from_starting_is_in_the_exception() -> None:
    with pytest.raises(NodeDied, match=r"num\.partitions"), node(config={"num.partition": "3"}):
        pytest.fail("it started with a setting that does not exist")


def test_a_port_in_use_is_in_the_exception() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(NodeDied, match="is in use"),
        node(port=taken.getsockname()[1]),
    ):
        pytest.fail("it started on a port in use")


def test_what_a_node_says_is_in_its_log_file() -> None:
    with node() as running:
        running.stop()
        said = Path(running.log_path).read_text()

    assert f"ready: Kafka clients at {running.bootstrap}" in said
    assert "stopping" in said
