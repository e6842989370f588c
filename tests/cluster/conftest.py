"""Clusters of real processes: one that all tests of a module share, and ones of a test's own."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Iterator

import pytest

from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.cluster.support import check_logs

with warnings.catch_warnings():  # warnings are errors in our tests; what a library does inside is not our business
    warnings.simplefilter("ignore")
    import aiokafka  # noqa: F401
    import kafka  # noqa: F401


@pytest.fixture(autouse=True, scope="module")
def _no_sockets_left() -> Iterator[None]:
    """kafka-python forgets sockets whose connection was refused, and the collector would call that an error of ours."""
    yield
    for each in gc.get_objects():
        is_open = type(each) is socket.socket and each.fileno() >= 0 and each.family == socket.AF_INET
        if is_open and each.getsockname()[0] == "0.0.0.0":  # it was never connected
            each.close()


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
