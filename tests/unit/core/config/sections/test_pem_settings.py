"""Key and certificates that stand in settings."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig

ENCRYPTED = {"listener.security.protocol.map": "PLAINTEXT:SSL"}
KEY = {"ssl.keystore.key": "KEY-TEXT", "ssl.keystore.certificate.chain": "CHAIN-TEXT", "ssl.key.password": "WORD"}


def test_a_key_in_the_settings_is_enough_and_never_shown() -> None:
    """F69"""
    config = NodeConfig.from_settings({**ENCRYPTED, **KEY})

    assert (config.pem.key, config.pem.chain, config.pem.key_password) == ("KEY-TEXT", "CHAIN-TEXT", "WORD")
    for secret in ("KEY-TEXT", "CHAIN-TEXT", "WORD"):
        assert secret not in repr(config)
        assert secret not in repr(config.given)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"ssl.keystore.key": "K"}, "go together"),
        ({**KEY, "ssl.keystore.location": "f", "ssl.keystore.type": "PEM"}, "both set"),
        (
            {**KEY, "ssl.truststore.certificates": "T", "ssl.truststore.location": "f", "ssl.truststore.type": "PEM"},
            "both set",
        ),
        ({}, "ssl.keystore.location is missing"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, str], named: str) -> None:
    with pytest.raises(BadConfig, match=named):
        NodeConfig.from_settings({**ENCRYPTED, **more})
