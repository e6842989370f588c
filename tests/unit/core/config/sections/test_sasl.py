"""Settings of logging in: what goes together."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.describe import describe_node
from chronik.core.config.node import NodeConfig

JAAS = 'Module required username="node" password="secret" user_node="secret" user_alice="hers";'
ALONE = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9092", "sasl.jaas.config": JAAS}
PLAIN = {**ALONE, "sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN"}
CLUSTER = {
    "controller.quorum.voters": "1@127.0.0.1:9092,2@127.0.0.1:9094",
    "cluster.id": "c" * 22,
    "node.id": "1",
    "super.users": "User:node",
}


def test_a_line_of_one_listener_and_mechanism_stands_before_that_of_all() -> None:
    own = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'M required user_bob="his";'}
    config = NodeConfig.from_settings({**PLAIN, **own})

    assert config.login_of("SASL_PLAINTEXT", "PLAIN").users == {"bob": "his"}
    assert config.login_of("OTHER", "PLAIN").users == {"node": "secret", "alice": "hers"}


def test_passwords_are_never_shown() -> None:
    """F69"""
    config = NodeConfig.from_settings(PLAIN)
    assert "secret" not in repr(config)
    assert not [shown for shown in describe_node(config) if "jaas" in shown.name or "secret" in str(shown.value)]


def test_nodes_of_a_cluster_have_a_login_of_their_own() -> None:
    NodeConfig.from_settings({**PLAIN, **CLUSTER})
    assert NodeConfig.from_settings({**ALONE, **CLUSTER}).node_login is not None
    assert NodeConfig.from_settings({}).node_login is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**PLAIN, "sasl.jaas.config": "M required;"}, "no user for PLAIN"),
        ({**PLAIN, "sasl.jaas.config": "nonsense"}, "cannot be read"),
        ({**ALONE, "sasl.enabled.mechanisms": "GSSAPI"}, "a list of PLAIN, SCRAM"),
        ({**ALONE, **CLUSTER, "super.users": "User:x"}, "super.users does not have User:node"),
        ({**ALONE, **CLUSTER, "sasl.jaas.config": "M required;"}, "no username"),
        ({**PLAIN, **CLUSTER, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "not one of sasl.enabled"),
        ({**PLAIN, **CLUSTER, "sasl.jaas.config": JAAS.replace('user_node="secret"', 'user_node="other"')}, "same"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words) as caught:
        NodeConfig.from_settings(settings)
    assert "hers" not in str(caught.value)
