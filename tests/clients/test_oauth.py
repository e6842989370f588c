"""Real clients that log in with tokens (OAUTHBEARER), and tokens that are not taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from chronik.testing import RunningNode, node
from tests.clients.support import needs, wait_until
from tests.tokens import Issuer, unsigned

needs("kafka")

from kafka import KafkaProducer  # noqa: E402
from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: E402


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def served(issuer: Issuer) -> Iterator[RunningNode]:
    with node(issuer.settings) as running:
        yield running


def librdkafka(bootstrap: str, token: Callable[[], str]) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token(), time.time() + 60),
        "message.timeout.ms": 20_000,
    }


def produced(settings: dict[str, Any]) -> object:
    """None, or why it was not."""
    errors: list[object] = []
    said: list[str] = []
    producer = confluent_kafka.Producer({**settings, "error_cb": lambda error: said.append(str(error))}, logger=None)
    producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
    for _ in range(200):
        producer.poll(0.1)
        if errors or any("token" in each for each in said):
            break
    producer.purge()
    return errors[0] if errors else said


def test_librdkafka_logs_in_with_a_token(served: RunningNode, issuer: Issuer) -> None:
    assert produced(librdkafka(served.bootstrap, issuer.token)) is None


def test_kafka_python_logs_in_with_a_token(served: RunningNode, issuer: Issuer) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
        def token(self) -> str:
            return issuer.token()

    producer = KafkaProducer(
        bootstrap_servers=served.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    producer.send("t", b"y").get(30)
    producer.close()


@pytest.mark.parametrize(
    "attack", ["another audience", "another issuer", "expired", "another key", "none", "public key"]
)
def test_a_token_that_is_not_for_us_is_refused_and_said_why(served: RunningNode, issuer: Issuer, attack: str) -> None:
    token = {
        "another audience": lambda: issuer.token(aud="others"),
        "another issuer": lambda: issuer.token(iss="others"),
        "expired": lambda: issuer.token(exp=int(time.time()) - 100),
        "another key": lambda: issuer.token(issuer.another_key()),
        "none": unsigned,
        "public key": issuer.with_public_key_as_secret,
    }[attack]()
    assert "the token is not taken" in str(produced(librdkafka(served.bootstrap, lambda: token)))


def test_a_session_ends_with_its_token_and_the_client_goes_on_with_the_next(
    served: RunningNode, issuer: Issuer
) -> None:
    """KIP-368: one connection, and tokens of seconds. librdkafka logs in anew by itself."""
    given: list[float] = []

    def brief() -> str:
        given.append(time.time())
        return issuer.token(exp=int(time.time()) + 3)

    settings = {**librdkafka(served.bootstrap, brief), "oauth_cb": lambda _: (brief(), time.time() + 3)}
    failed: list[object] = []
    producer = confluent_kafka.Producer(settings, logger=None)

    def goes_on() -> bool:
        producer.produce("t", b"z", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.flush(10)
        return len(given) > 2

    wait_until(goes_on, "three tokens")
    assert failed == []
