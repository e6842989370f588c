"""Who a certificate says that a connection is, and whether it may be a node's."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.api.call import Peer
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.access.ssl_principal import NoMatchingRule
from chronik.core.config.node import NodeConfig
from chronik.core.config.sections.listeners import ListenersConfig
from chronik.core.config.sections.security import SecurityConfig
from chronik.node.net.authentication import Authentication
from chronik.node.net.node_identity import node_identity
from chronik.wire.versions import NODE_SOFTWARE
from tests.unit.node.fakes import FakeChance, FakeClock

ALICE = {"subject": ((("organizationName", "chronik"),), (("commonName", "alice"),))}
NODE = {"subject": ((("organizationName", "chronik"),), (("commonName", "node"),))}
CONFIG = SecurityConfig(ssl_client_auth="requested", super_users="User:CN=node,O=chronik;User:ANONYMOUS")


class Transport:
    """As much of one as is looked at."""

    def __init__(self, certificate: Any) -> None:
        self._certificate = certificate

    def get_extra_info(self, name: str) -> Any:
        return {"peercert": self._certificate}[name]


LISTENERS = ListenersConfig(
    listeners="SSL://:1,PLAINTEXT://:2,NODES://:3,CONTROLLER://:4",
    listener_security_protocol_map="NODES:SSL",
    inter_broker_listener_name="NODES",
)


def authenticated(
    certificate: Any, config: SecurityConfig = CONFIG, listener: str = "NODES", listeners: ListenersConfig = LISTENERS
) -> Peer:
    peer = Peer(1, "10.0.0.1", listener)
    transport: Any = Transport(certificate)
    node_config = NodeConfig(listeners=listeners, security=config)
    Authentication(node_config, FakeClock(), FakeChance(), lambda user, mechanism: None).authenticate(peer, transport)
    return peer


def claims_to_be_node_2(peer: Peer) -> int | None:
    return node_identity(peer, NODE_SOFTWARE, "node-2")


def test_a_certificate_says_the_principal() -> None:
    assert authenticated(ALICE).principal == KafkaPrincipal("User", "CN=alice,O=chronik")


def test_rules_make_a_shorter_name() -> None:
    config = SecurityConfig(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/U")
    assert authenticated(ALICE, config).principal == KafkaPrincipal("User", "ALICE")


def test_a_certificate_that_no_rule_knows_is_refused() -> None:
    config = SecurityConfig(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(x)$/$1/")
    with pytest.raises(NoMatchingRule):
        authenticated(ALICE, config)


def test_only_a_super_user_is_taken_for_the_node_it_says_it_is() -> None:
    """F64: identity never comes from a field of the request."""
    assert claims_to_be_node_2(authenticated(NODE)) == 2
    assert claims_to_be_node_2(authenticated(ALICE)) is None
    without: list[Any] = [None, {}]
    for certificate in without:
        peer = authenticated(certificate)
        assert peer.principal == ANONYMOUS
        assert claims_to_be_node_2(peer) is None, "a super user by name, and without a certificate"


def test_where_nothing_is_known_of_clients_what_they_say_is_believed() -> None:
    unknown = SecurityConfig(ssl_client_auth="none", super_users="User:x")
    assert claims_to_be_node_2(authenticated(None, unknown)) == 2
    plain = ListenersConfig()
    assert claims_to_be_node_2(authenticated(None, listener="PLAINTEXT", listeners=plain)) == 2


def test_a_node_is_one_only_on_the_listeners_for_nodes() -> None:
    assert claims_to_be_node_2(authenticated(NODE, listener="CONTROLLER")) == 2
    for other in ("SSL", "PLAINTEXT"):
        assert claims_to_be_node_2(authenticated(NODE, listener=other)) is None
