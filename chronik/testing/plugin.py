"""The pytest plugin: `chronik_node` is one node for the whole run, `chronik_node_factory` makes more of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chronik.testing.node import RunningNode, node


@pytest.fixture(scope="session")
def chronik_node() -> Iterator[RunningNode]:
    """A real node on a free port, shared by all tests of the run: use topic names of your own."""
    with node() as running:
        yield running


@pytest.fixture
def chronik_node_factory() -> Iterator[Callable[..., RunningNode]]:
    """Makes nodes of this test's own: `chronik_node_factory(config={...})`. They end with the test."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> RunningNode:
            return stack.enter_context(node(**options))

        yield make
