"""Kafka's kafka-delegation-tokens makes, shows, renews and ends tokens; a Java client logs in with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import RunningNode, node
from tests.clients.kafka_tools import Tool
from tests.clients.support import needs

needs("kafka tools")

MODULE = "org.apache.kafka.common.security"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required user_alice="hers" user_bob="his";',
    "delegation.token.secret.key": "a key of all nodes",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice",
    "connection.failed.authentication.delay.ms": "10",
}


class Logins:
    """Files with what clients log in with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _written(self, name: str, mechanism: str, line: str) -> tuple[str, str]:
        path = self._folder / f"{name}.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={line}\n"
            "default.api.timeout.ms=10000\nrequest.timeout.ms=10000\n"
        )
        return "--command-config", str(path)

    def plain(self, user: str, password: str) -> tuple[str, str]:
        line = f'{MODULE}.plain.PlainLoginModule required username="{user}" password="{password}";'
        return self._written(user, "PLAIN", line)

    def token(self, token_id: str, secret: str) -> tuple[str, str]:
        line = f'{MODULE}.scram.ScramLoginModule required username="{token_id}" password="{secret}" tokenauth="true";'
        return self._written("token", "SCRAM-SHA-256", line)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with node(SETTINGS) as running:
        yield running


def test_a_token_is_made_used_renewed_and_ended(served: RunningNode, tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    tool = Tool.without_archive(served.bootstrap)
    alice = logins.plain("alice", "hers")

    # Given a token of alice, which bob may renew
    made = tool(
        "kafka-delegation-tokens", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob", *alice
    )
    row = next(line for line in made.splitlines() if "User:alice" in line).split()
    token_id, secret = row[0], row[1]

    # Then its holder is alice, and can make no other
    holder = logins.token(token_id, secret)
    tool("kafka-topics", "--create", "--topic", "of-alice", *holder)
    with pytest.raises(RuntimeError, match=r"DelegationTokenDisabled|Delegation Token requests are not allowed"):
        tool("kafka-delegation-tokens", "--create", "--max-life-time-period", "-1", *holder)

    # And bob sees and renews it
    bob = logins.plain("bob", "his")
    assert token_id in tool("kafka-delegation-tokens", "--describe", "--owner-principal", "User:alice", *bob)
    tool("kafka-delegation-tokens", "--renew", "--renew-time-period", "60000", "--hmac", secret, *bob)

    # When it is ended, nothing logs in with it any more
    tool("kafka-delegation-tokens", "--expire", "--expiry-time-period", "-1", "--hmac", secret, *alice)
    with pytest.raises(RuntimeError, match=r"SaslAuthenticationException|invalid credentials"):
        tool("kafka-topics", "--list", *holder)
