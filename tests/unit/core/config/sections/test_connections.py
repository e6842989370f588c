"""Limits of connections and requests."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig


def test_some_addresses_have_another_limit_of_connections() -> None:
    config = NodeConfig.from_settings({"max.connections.per.ip.overrides": "10.0.0.1:5, ::1:7,[fe80::2]:9"})

    assert config.connections.connection_overrides == {"10.0.0.1": 5, "::1": 7, "fe80::2": 9}


@pytest.mark.parametrize("text", ["10.0.0.1", "a.host:5", "10.0.0.1:-1", "10.0.0.1:many"])
def test_overrides_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadConfig, match=r"max\.connections\.per\.ip\.overrides"):
        NodeConfig.from_settings({"max.connections.per.ip.overrides": text})


def test_the_memory_of_requests_holds_the_largest_request() -> None:
    with pytest.raises(BadConfig, match=r"must be at least socket\.request\.max\.bytes"):
        NodeConfig.from_settings({"queued.max.request.bytes": "1000"})

    settings = {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"}
    assert NodeConfig.from_settings(settings).connections.queued_max_request_bytes == 1000


def test_without_a_setting_the_memory_of_the_machine_counts() -> None:
    """Without a setting the memory of the machine counts but the largest request fits."""
    config = NodeConfig.from_settings({"socket.request.max.bytes": "1000"}).connections

    assert config.request_bytes_max(5000) == 5000
    assert config.request_bytes_max(10) == 1000
