"""`chronik lab` as a command: its list, its mistakes, and an orderly end by Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from chronik.lab.gallery import GALLERY
from chronik.local_cluster.directory import ClusterDirectory
from tests.cli.clusters import is_running
from tests.cli.conftest import COMMAND, Chronik
from tests.cluster.support import wait_until

NOBODY = Chronik("127.0.0.1:1")
END_S = 60


def test_the_gallery_is_listed_with_the_cause_of_each() -> None:
    listed = NOBODY.ok("lab", "--json").json

    assert [each["fault"] for each in listed] == list(GALLERY)
    assert {"fault", "what", "cause"} == set(listed[0])
    assert "follower-stops-fetching" in NOBODY.ok("lab").out


def test_an_unknown_fault_names_the_nearest() -> None:
    refused = NOBODY.run("lab", "fetch-hang")

    assert refused.code == 2
    assert "did you mean fetch-hangs?" in refused.err


def test_a_healthy_cluster_is_not_waited_for_to_be_called_something() -> None:
    assert NOBODY.run("lab", "healthy", "--until-named").code == 2


def test_ctrl_c_ends_nodes_and_clients_and_leaves_nothing_behind() -> None:
    command = [*COMMAND, "lab", "healthy", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as lab:
        assert lab.stdout is not None
        ready = next(line for line in lab.stdout if line.startswith("ready:"))
        next(line for line in lab.stdout if "chronik verify" in line)  # from then on Ctrl-C is a wish

        lab.send_signal(signal.SIGINT)
        printed, _ = lab.communicate(timeout=END_S)

    directory = re.search(r"logs in (\S+)\)", ready)
    assert directory is not None
    assert lab.returncode == 0
    assert "nothing is wrong, and nothing was called so" in printed
    assert not os.path.exists(directory[1])


@pytest.mark.usefixtures("hang_ups_count")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_lab_that_is_ended_while_it_starts_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    command = [*COMMAND, "lab", "healthy", "--port", "0"]
    place = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=place) as lab:
        wait_until(lambda: bool(nodes_in(tmp_path)), "a node that runs")
        pids = nodes_in(tmp_path)

        lab.send_signal(number)
        lab.wait(END_S)

    assert not any(is_running(pid) for pid in pids)
    assert list(tmp_path.iterdir()) == []


def nodes_in(path: Path) -> list[int]:
    """The nodes of the lab that has been opened there."""
    directories = [each for each in path.iterdir() if (each / "cluster.json").exists()]
    return [pid for each in directories for pid in ClusterDirectory.open(str(each)).alive().values()]
