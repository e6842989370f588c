"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "chronik.testing.plugin"

USES_IT = """
import socket

bootstraps = set()

def reach(node):
    with socket.create_connection((node.host, node.port), timeout=5):
        return node.bootstrap

def test_one(chronik_node):
    bootstraps.add(reach(chronik_node))

def test_another(chronik_node):
    bootstraps.add(reach(chronik_node))
    assert len(bootstraps) == 1

def test_with_its_own(chronik_node, chronik_node_factory):
    own = chronik_node_factory(config={"num.partitions": "3"})
    assert reach(own) != reach(chronik_node)

def test_with_a_cluster(chronik_cluster_factory):
    own = chronik_cluster_factory(nodes=1, settings={"num.partitions": "3"})
    assert reach(own.nodes[1]) == own.bootstrap
"""


def run_pytest(directory: Path, test: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(test)
    is_installed = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
    ask_for_it = [] if is_installed else ["-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *ask_for_it, "."]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


def test_the_fixtures_give_nodes_that_can_be_reached(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, USES_IT)

    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_a_node_that_does_not_start_is_an_error_with_what_it_printed(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path, "def test_one(chronik_node_factory):\n    chronik_node_factory(config={'bad.key': '1'})\n"
    )

    assert done.returncode == 1
    assert "NodeDied" in done.stdout
    assert "bad.key" in done.stdout
