"""The voters, and where a cluster is asked."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.sections.quorum import QuorumConfig


def test_a_node_that_names_itself_asks_nobody() -> None:
    quorum = QuorumConfig(controller_quorum_bootstrap_servers="localhost:9092, other:9092")

    assert quorum.bootstrap_servers([9092]) == [("other", 9092)]
    assert quorum.bootstrap_servers([9093]) == [("localhost", 9092), ("other", 9092)]


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadConfig, match="HOST:PORT"):
        QuorumConfig(controller_quorum_bootstrap_servers="nowhere").check()
