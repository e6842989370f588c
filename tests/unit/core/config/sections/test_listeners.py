"""Where a node listens and what clients are told."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("PLAINTEXT://127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("PLAINTEXT://:9092,CONTROLLER://:9093", ("", 9092)),
        ("EXTERNAL://[::1]:0", ("::1", 0)),
    ],
)
def test_the_listener_for_clients_is_found(listeners: str, address: tuple[str, int]) -> None:
    assert NodeConfig.from_settings({"listeners": listeners}).address == address


@pytest.mark.parametrize(
    "listeners",
    ["SASL_SSL://h:1", "PLAINTEXT://h", "h:65536", "h:x", "h:²", "a:1,b:2", "CONTROLLER://:9093", ""],
)
def test_a_listener_that_cannot_be_is_refused_when_the_config_is_read(listeners: str) -> None:
    with pytest.raises(BadConfig) as caught:
        NodeConfig.from_settings({"listeners": listeners})

    assert caught.value.key == "listeners"


@pytest.mark.parametrize(
    ("given", "advertised"),
    [
        ({"listeners": "10.0.0.1:1"}, ("10.0.0.1", 1)),
        ({"listeners": "0.0.0.0:1"}, ("localhost", 1)),
        ({"listeners": "PLAINTEXT://:1"}, ("localhost", 1)),
        ({"listeners": "0.0.0.0:1", "advertised.listeners": "PLAINTEXT://node.example:2"}, ("node.example", 2)),
    ],
)
def test_clients_are_told_an_address_they_can_reach(given: dict[str, str], advertised: tuple[str, int]) -> None:
    assert NodeConfig.from_settings(given).advertised_address == advertised
