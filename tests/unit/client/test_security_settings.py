"""Kafka's client properties, as a Security: what each says, what is refused, and that no secret is ever repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.client.errors import ChronikError
from chronik.client.security import PemStore, Security
from chronik.client.security_settings import (
    from_environment,
    given_settings,
    kafka_settings,
    read_properties,
    security_of,
)

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="s3\\"cret";'
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' clientId="me" clientSecret="s3cret" scope="kafka";'
)


def pem(folder: Path, name: str = "ca.pem") -> str:
    (folder / name).write_text("-----BEGIN CERTIFICATE-----\n")
    return str(folder / name)


def refused(**settings: str) -> str:
    with pytest.raises(ChronikError) as raised:
        security_of({name.replace("_", "."): value for name, value in settings.items()})
    return str(raised.value)


def test_nothing_given_is_a_plain_connection() -> None:
    assert security_of({}) == Security()
    assert security_of({"client.id": "me", "acks": "all"}) == Security()
    assert Security().for_librdkafka() == {}
    assert Security().for_kafka_python() == {}


def test_a_login_by_scram_over_tls_is_read_from_a_file_of_kafkas(tmp_path: Path) -> None:
    authority = pem(tmp_path)
    file = tmp_path / "client.properties"
    # A backslash is written twice in a properties file.
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={SCRAM.replace(chr(92), chr(92) * 2)}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority}\nssl.endpoint.identification.algorithm=\n"
    )

    found = security_of(read_properties(str(file)))

    assert found == Security(
        "SASL_SSL",
        PemStore(authority),
        is_name_checked=False,
        mechanism="SCRAM-SHA-512",
        username="ann",
        password='s3"cret',
    )
    assert found.for_librdkafka() == {
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.location": authority,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 's3"cret',
    }
    assert security_of(kafka_settings(found)) == found  # what is handed on says the same


def test_a_key_store_is_certificate_and_key_of_other_clients(tmp_path: Path) -> None:
    store = pem(tmp_path, "me.pem")

    found = security_of({"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": store})

    settings = found.for_librdkafka()
    assert (settings["ssl.certificate.location"], settings["ssl.key.location"]) == (store, store)


def test_certificates_may_stand_in_the_settings_themselves() -> None:
    found = security_of(
        {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": "CA",
            "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.keystore.key": "KEY",
            "ssl.key.password": "s3cret",
        }
    )

    settings = found.for_librdkafka()
    assert (settings["ssl.ca.pem"], settings["ssl.certificate.pem"], settings["ssl.key.pem"]) == ("CA", "CHAIN", "KEY")
    assert settings["ssl.key.password"] == "s3cret"
    assert "s3cret" not in repr(found)
    assert "KEY" not in repr(found)


@pytest.mark.parametrize(
    ("name", "content", "kind", "form"),
    [
        ("a.jks", b"\xfe\xed\xfe\xed\x00\x00", None, "is JKS"),
        ("a.p12", b"\x30\x82\x01", None, "is PKCS12"),
        ("a.pem", b"-----BEGIN CERTIFICATE-----", "JKS", "ssl.truststore.type is JKS"),
        ("a.txt", b"hello", None, "is not PEM"),
    ],
)
def test_stores_of_java_are_refused_with_how_to_convert_them(
    tmp_path: Path, name: str, content: bytes, kind: str | None, form: str
) -> None:
    (tmp_path / name).write_bytes(content)
    store = {"ssl_truststore_location": str(tmp_path / name)} | ({"ssl_truststore_type": kind} if kind else {})

    words = refused(security_protocol="SSL", **store)

    assert form in words
    assert f"keytool -list -rfc -keystore {tmp_path / name} > truststore.pem" in words


def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path) -> None:
    assert "it may be PLAINTEXT, SSL" in refused(security_protocol="TLS")
    assert "is ssl.truststore.location meant?" in refused(ssl_trustore_location="x")
    assert "sasl.mechanism is GSSAPI" in refused(security_protocol="SASL_SSL")
    assert "others than TLSv1.2 and TLSv1.3" in refused(security_protocol="SSL", ssl_enabled_protocols="TLSv1.1")
    assert "go together" in refused(security_protocol="SSL", ssl_keystore_key="k")
    missing = str(tmp_path / "missing")
    assert f"{missing} cannot be read" in refused(security_protocol="SSL", ssl_truststore_location=missing)
    assert "needs a name and a password" in refused(security_protocol="SASL_SSL", sasl_mechanism="PLAIN")


def test_no_error_repeats_a_secret(tmp_path: Path) -> None:
    broken = 'x required username="ann" password="s3cret'
    words = refused(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=broken)
    assert "sasl.jaas.config cannot be read" in words
    assert "s3cret" not in words
    file = tmp_path / "bad.properties"
    file.write_text("sasl.password=s3cret\\u00\n")
    with pytest.raises(ChronikError) as raised:
        read_properties(str(file))
    assert "s3cret" not in str(raised.value)
    with pytest.raises(ChronikError) as raised:
        given_settings(None, ["=sasl.password=s3cret"])
    assert "s3cret" not in str(raised.value)


def test_tokens_come_from_a_file_or_an_endpoint() -> None:
    bearer = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    address = "sasl.oauthbearer.token.endpoint.url"

    by_file = security_of({**bearer, address: "file:///run/my%20token"})
    by_endpoint = security_of({**bearer, address: "https://id.example/token", "sasl.jaas.config": OAUTH})

    assert by_file.token is not None
    assert by_file.token.file == "/run/my token"
    assert by_endpoint.token is not None
    assert (by_endpoint.token.client_id, by_endpoint.token.client_secret) == ("me", "s3cret")
    assert by_endpoint.token.scope == "kafka"
    assert "s3cret" not in repr(by_endpoint)
    assert "oauth_cb" in by_file.for_librdkafka()
    assert security_of(kafka_settings(by_endpoint)) == by_endpoint
    with pytest.raises(ChronikError, match=r"needs sasl\.oauthbearer\.token\.endpoint\.url"):
        security_of(bearer)
    with pytest.raises(ChronikError, match="needs an id and a secret"):
        security_of({**bearer, address: "https://id.example/token"})


def test_pairs_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=file\nsasl.password=file\nsasl.mechanism=PLAIN\n")
    monkeypatch.setenv("CHRONIK_COMMAND_CONFIG", str(file))
    monkeypatch.setenv("CHRONIK_KAFKA_SASL_PASSWORD", "environment")
    monkeypatch.setenv("CHRONIK_KAFKA_SASL_MECHANISM", "environment")

    found = given_settings(None, ["kafka.sasl.mechanism=pair"])

    assert found == {"sasl.username": "file", "sasl.password": "environment", "sasl.mechanism": "pair"}


def test_variables_about_anything_else_are_left_alone() -> None:
    found = from_environment({"CHRONIK_KAFKA_HOME": "x", "CHRONIK_KAFKA_SSL_CA_LOCATION": "y", "SSL_CA": "z"})
    assert found == {"ssl.ca.location": "y"}
