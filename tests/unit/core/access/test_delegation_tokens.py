"""Tokens with which others log in as their owner."""

from __future__ import annotations

import base64

import pytest

from chronik.core.access.delegation_tokens import DelegationToken, TokenCredentials, secret_of, token_of
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.sasl import SaslLogin, SaslServer
from chronik.core.access.scram import AuthenticationFailed, ScramClient, ScramMechanism
from tests.unit.core.access.test_sasl import SCRAM, credentials


def test_the_holder_of_a_delegation_token_is_its_owner_until_it_is_over() -> None:
    """KIP-48"""
    alice = KafkaPrincipal("User", "alice")
    found = {"id": DelegationToken("id", alice, alice, (), 0, 90_000, 60_000)}
    wall = [0]
    tokens = TokenCredentials("key", found.get, lambda: wall[0])

    def log_in(user: str, password: str, extensions: str = ",tokenauth=true") -> SaslLogin:
        server = SaslServer(
            (SCRAM,), lambda: "nonce", b"k" * 32, {}, credentials, wall_ms=lambda: wall[0], tokens=tokens
        )
        login = SaslLogin(server, lambda: 0, lambda principal: None)
        login.handshake(SCRAM)
        client = ScramClient(ScramMechanism.SHA_256, user, password, "c", extensions)
        login.step(client.final(login.step(client.first())))
        return login

    secret = base64.b64encode(secret_of("key", "id")).decode()
    login = log_in("id", secret)
    assert (login.principal, login.is_token, login.session_lifetime_ms) == (alice, True, 60_000)
    assert not log_in("alice", "hers", "").is_token
    for user, password, extensions in (
        ("id", "hers", ",tokenauth=true"),
        ("id", secret, ""),
        ("other", secret, ",tokenauth=true"),
    ):
        with pytest.raises(AuthenticationFailed):
            log_in(user, password, extensions)

    wall[0] = 60_001
    assert login.is_revoked
    with pytest.raises(AuthenticationFailed):
        log_in("id", secret)


def test_a_token_of_what_is_no_principal_is_none() -> None:
    assert token_of("id", "alice", "User:alice", (), 0, 0, 0) is None
    assert token_of("id", "User:alice", "User:alice", ("bob",), 0, 0, 0) is None
