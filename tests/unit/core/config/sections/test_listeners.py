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
        ("SSL://[::1]:0", ("::1", 0)),
    ],
)
def test_the_listener_for_clients_is_found(listeners: str, address: tuple[str, int]) -> None:
    config = NodeConfig.from_settings({"listeners": listeners, "listener.security.protocol.map": "SSL:PLAINTEXT"})
    assert config.address == address


@pytest.mark.parametrize(
    "listeners",
    [
        "PLAINTEXT://h",
        "h:65536",
        "h:x",
        "h:²",
        "a:1,b:2",
        "A://a:1,B://b:1",
        "CONTROLLER://:9093",
        "SASLSSL://:9093",
        "",
    ],
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


SEVERAL = {
    "listeners": "CLIENTS://0.0.0.0:1,NODES://10.0.0.1:2,CONTROLLER://10.0.0.1:3",
    "inter.broker.listener.name": "nodes",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT",
}

OF_ANY_NAME = {"listener.security.protocol.map": "X:PLAINTEXT,Y:PLAINTEXT,PLAINTEXT:PLAINTEXT"}


def test_each_listener_has_its_own_advertised_address() -> None:
    config = NodeConfig.from_settings({**SEVERAL, "advertised.listeners": "CLIENTS://node.example:9"}).listeners

    told = [(point.name, point.host, point.port) for point in config.advertised]
    assert told == [("CLIENTS", "node.example", 9), ("NODES", "10.0.0.1", 2)]
    assert config.inter_node.name == "NODES"
    assert config.node_listeners == {"NODES", "CONTROLLER"}


def test_nodes_use_the_listener_that_is_named_or_the_only_one() -> None:
    def inter_node(**given: str) -> str:
        settings = {key.replace("_", "."): value for key, value in given.items()} | OF_ANY_NAME
        return NodeConfig.from_settings(settings).listeners.inter_node.name

    assert inter_node(listeners="X://:1") == "X"
    assert inter_node(listeners="X://:1,PLAINTEXT://:2") == "PLAINTEXT", "as in Kafka"
    assert inter_node(listeners="X://:1,PLAINTEXT://:2", inter_broker_listener_name="X") == "X"
    assert inter_node(listeners="X://:1,Q://:2", controller_listener_names="Q") == "X"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"listeners": "X://:1,Y://:2", **OF_ANY_NAME}, "PLAINTEXT is not one of the listeners"),
        ({**SEVERAL, "inter.broker.listener.name": "CONTROLLER"}, "CONTROLLER is not one of the listeners"),
        ({**SEVERAL, "advertised.listeners": "Z://h:1"}, "there is no listener Z"),
        ({"listeners": "PLAINTEXT://:1,X://:2"}, "no security protocol defined for listener X"),
    ],
)
def test_names_that_fit_nothing_are_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadConfig, match=complaint):
        NodeConfig.from_settings(given)


def test_nodes_speak_one_protocol_to_each_other() -> None:
    voters = {"controller.quorum.voters": "1@10.0.0.1:3,2@10.0.0.2:3", "cluster.id": "c"}
    NodeConfig.from_settings({**SEVERAL, **voters})
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "k",
        "listener.security.protocol.map": "CLIENTS:SSL,NODES:SSL",
    }
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "t"}
    config = NodeConfig.from_settings({**SEVERAL, **voters, **stores, **trust})
    assert {point.name: point.protocol for point in config.listeners.all}["CONTROLLER"] == "SSL"
    mixed = {"listener.security.protocol.map": "CLIENTS:SSL,NODES:SSL,CONTROLLER:PLAINTEXT"}
    with pytest.raises(BadConfig, match="nodes speak one protocol, not PLAINTEXT and SSL"):
        NodeConfig.from_settings({**SEVERAL, **voters, **stores, **trust, **mixed})
