"""Settings of TLS: what goes together, and what is refused with a way out."""

from __future__ import annotations

import pytest

from chronik.core.access.principal import KafkaPrincipal
from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig

STORES = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "key.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "trust.pem",
}
SSL = {"listeners": "SSL://127.0.0.1:9093", **STORES}
CLUSTER = {"controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094", "cluster.id": "c" * 22, "node.id": "1"}


def test_a_listener_is_plain_unless_its_name_or_the_map_says_otherwise() -> None:
    def is_encrypted(**settings: str) -> bool:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        return NodeConfig.from_settings({**STORES, **given}).listeners.is_encrypted

    assert not is_encrypted()
    assert not is_encrypted(listeners="127.0.0.1:9092")
    assert is_encrypted(listeners="SSL://127.0.0.1:9092")
    assert is_encrypted(listeners="CLIENTS://h:1,CONTROLLER://h:2", listener_security_protocol_map="CLIENTS:SSL")
    assert not is_encrypted(listeners="CLIENTS://h:1", listener_security_protocol_map="clients:plaintext")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listener.security.protocol.map": "C"}, "is not NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "C:TLS"}, "is not NAME:PROTOCOL"),
        ({"listeners": "SSL://h:1"}, "ssl.keystore.location is missing"),
        ({**SSL, "ssl.keystore.type": "JKS"}, "openssl pkcs12 -in FILE"),
        ({**SSL, "ssl.truststore.type": "PKCS12"}, "keytool -list -rfc"),
        ({**SSL, "ssl.client.auth": "maybe"}, "one of required, requested, none"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2, TLSv1.3"),
        ({**SSL, "ssl.principal.mapping.rules": "RULE:("}, "Invalid rule"),
        ({"super.users": "alice"}, "principalType:principalName"),
        ({**SSL, **CLUSTER, "ssl.client.auth": "required"}, "super.users is missing"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words.replace("(", r"\(")):
        NodeConfig.from_settings(settings)


def test_a_node_that_checks_certificates_needs_to_know_whom_to_trust() -> None:
    without = {key: value for key, value in SSL.items() if key != "ssl.truststore.location"}
    NodeConfig.from_settings(without)
    with pytest.raises(BadConfig, match=r"ssl\.truststore\.location is missing"):
        NodeConfig.from_settings({**without, "ssl.client.auth": "requested"})
    with pytest.raises(BadConfig, match=r"ssl\.truststore\.location is missing"):
        NodeConfig.from_settings({**without, **CLUSTER})


def test_super_users_are_principals() -> None:
    config = NodeConfig.from_settings({**SSL, **CLUSTER, "ssl.client.auth": "required", "super.users": "User:CN=n,O=c"})
    assert config.security.super_principals == {KafkaPrincipal("User", "CN=n,O=c")}
