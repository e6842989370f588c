"""The pytest plugin: `chronik_node` is one node for the whole run; the factories make more, alone or as a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chronik.testing.cluster import RunningCluster, cluster
from chronik.testing.node import RunningNode, node


@pytest.fixture(scope="session")
def chronik_node() -> Iterator[RunningNode]:
    """A real node on a free port, shared by all tests of the run: use topic names of your own."""
    with node() as running:
        yield running


@pytest.fixture(scope="session")
def chronik_secure_node() -> Iterator[RunningNode]:
    """A real node with TLS, logins and ACLs, shared by all tests of the run: `chronik_secure_node.for_confluent()`."""
    with node(secure=True) as running:
        yield running


@pytest.fixture
def chronik_node_factory() -> Iterator[Callable[..., RunningNode]]:
    """Makes nodes of this test's own: `chronik_node_factory(config={...}, secure=True)`. They end with the test."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> RunningNode:
            return stack.enter_context(node(**options))

        yield make


@pytest.fixture
def chronik_cluster_factory() -> Iterator[Callable[..., RunningCluster]]:
    """Makes clusters of this test's own: `chronik_cluster_factory(nodes=3, settings={...})`. They end with the test."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> RunningCluster:
            return stack.enter_context(cluster(**options))

        yield make
