"""Clusters of real processes: one that all tests of a module share, and ones of a test's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.cluster.support import check_logs

_node = importlib.util.find_spec("chronik.node.node")
if _node is None or "Fetchers(" not in Path(_node.origin or "").read_text():  # until nodes can be more than one
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    """Three nodes with their defaults. A test that kills one of them starts it again."""
    with start_cluster(nodes=3) as running:
        yield running
        check_logs(running)


@pytest.fixture
def own_cluster() -> Iterator[RunningCluster]:
    """Three nodes for one test alone, for what cannot be mended."""
    with start_cluster(nodes=3) as running:
        yield running
        check_logs(running)
