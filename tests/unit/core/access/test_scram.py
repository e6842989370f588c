"""SCRAM: with the exchanges that the RFCs print, and with all that can go wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from chronik.core.access.scram import (
    AuthenticationFailed,
    ScramClient,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    check_iterations,
    check_password,
    credential_of,
)
from chronik.core.errors import Code, Refused

SHA_256 = ScramMechanism.SHA_256
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PENCIL = credential_of(SHA_256, b"pencil", SALT, 4096)
# RFC 7677, section 3
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
ANSWER = b"r=rOprNGfwEbeRWgbNEkqO" + SERVER_NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + SERVER_NONCE.encode() + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIED = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(credential: ScramCredential | None = PENCIL, mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, lambda user: credential, SERVER_NONCE, b"secret")


def test_the_exchange_of_the_rfc() -> None:
    server = exchange()
    assert server.step(FIRST) == ANSWER
    assert server.step(FINAL) == VERIFIED
    assert server.is_complete
    assert server.user == "user"


def test_our_client_says_what_the_rfc_says() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == FIRST
    assert client.final(ANSWER) == FINAL
    client.check(VERIFIED)
    with pytest.raises(AuthenticationFailed, match="does not know"):
        client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=")


@pytest.mark.parametrize("mechanism", [ScramMechanism.SHA_256, ScramMechanism.SHA_512])
def test_names_with_commas_and_equals_in_both_mechanisms(mechanism: ScramMechanism) -> None:
    asked: list[str] = []

    def credentials(user: str) -> ScramCredential:
        asked.append(user)
        return credential_of(mechanism, b"geheimnis", b"salt", 4096)

    server = ScramExchange(mechanism, credentials, "ours", b"secret")
    client = ScramClient(mechanism, "a,b=c", "geheimnis", "theirs")
    client.check(server.step(client.final(server.step(client.first()))))
    assert set(asked) == {"a,b=c"} == {server.user}


def test_a_wrong_password_is_refused_and_nothing_is_complete() -> None:
    server = exchange()
    client = ScramClient(SHA_256, "user", "pencils", "rOprNGfwEbeRWgbNEkqO")
    answer = server.step(client.first())
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        server.step(client.final(answer))
    assert not server.is_complete


def test_a_name_that_does_not_exist_is_answered_like_one_that_does() -> None:
    """A name that does not exist is answered like one that does and always the same."""
    answers = [exchange(None).step(FIRST) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0].startswith(b"r=rOprNGfwEbeRWgbNEkqO")
    other = exchange(None).step(FIRST.replace(b"user", b"else"))
    assert other != answers[0]
    server = exchange(None)
    server.step(FIRST)
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        server.step(FINAL)
    assert not server.is_complete


def test_all_zero_keys_do_not_log_in_as_nobody() -> None:
    """The keys of one that does not exist are known: that must not be enough."""
    server = exchange(None)
    answer = server.step(FIRST)
    zero = ScramCredential(b"", bytes(32), bytes(32), 4096)
    unsigned = b"c=biws," + answer.split(b",")[0]
    proof = base64.b64encode(zero.stored_key)
    with pytest.raises(AuthenticationFailed):
        server.step(unsigned + b",p=" + proof)


def test_a_message_is_taken_once() -> None:
    server = exchange()
    server.step(FIRST)
    server.step(FINAL)
    with pytest.raises(AuthenticationFailed, match="over"):
        server.step(FINAL)


def test_a_final_message_of_another_exchange_is_refused() -> None:
    server = ScramExchange(SHA_256, lambda user: PENCIL, "anothernonce", b"secret")
    server.step(FIRST)
    with pytest.raises(AuthenticationFailed, match="nonce"):
        server.step(FINAL)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,n=other,r=abc",
        b"n,a=admin,n=user,r=abc",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,n=" + b"u" * 5000 + b",r=abc",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        exchange().step(first)


@pytest.mark.parametrize(
    "final", [b"", FINAL.replace(b"c=biws", b"c=eSws"), FINAL[:-1] + b"!", FINAL.rpartition(b",p=")[0], FINAL[:-4]]
)
def test_a_final_message_that_is_none_is_refused(final: bytes) -> None:
    server = exchange()
    server.step(FIRST)
    with pytest.raises(AuthenticationFailed):
        server.step(final)


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER.replace(b"r=rO", b"r=xO"),
        ANSWER.replace(b"i=4096", b"i=1"),
        ANSWER.replace(b"i=4096", b"i=99999999"),
        ANSWER.replace(b"s=W22", b"s=!"),
        b"nonsense",
    ],
)
def test_a_client_refuses_a_server_that_downgrades_or_talks_nonsense(answer: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(AuthenticationFailed):
        client.final(answer)


def test_a_password_is_checked_against_what_is_stored_of_it() -> None:
    assert check_password(SHA_256, PENCIL, b"pencil")
    assert not check_password(SHA_256, PENCIL, b"Pencil")


def test_what_is_stored_is_not_shown() -> None:
    assert PENCIL.stored_key.hex() not in repr(PENCIL)
    assert repr(PENCIL) == "ScramCredential(iterations=4096)"


def test_iterations_have_limits() -> None:
    check_iterations(4096)
    check_iterations(16384)
    for count in (4095, 16385):
        with pytest.raises(Refused) as refused:
            check_iterations(count)
        assert refused.value.code is Code.UNACCEPTABLE_CREDENTIAL


def test_only_the_whole_nonce_is_taken_as_kafka_does_since_4() -> None:
    """Only the whole nonce is taken, as by Kafka since 4.0: librdkafka before 2.6.1 says its own part twice."""
    mechanism = ScramMechanism.SHA_256
    credential = credential_of(mechanism, b"secret", b"salt", 4096)

    def finished(server_nonce_said: str) -> ScramExchange:
        exchange = ScramExchange(mechanism, lambda _: credential, "ours", b"key")
        first = exchange.step(b"n,,n=alice,r=mine")
        unsigned = f"c=biws,r=mine{server_nonce_said}".encode()
        signed = b"n=alice,r=mine," + first + b"," + unsigned
        salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        exchange.step(unsigned + b",p=" + base64.b64encode(proof))
        return exchange

    assert finished("ours").is_complete
    for other in ("mineours", "theirs"):
        with pytest.raises(AuthenticationFailed, match="another nonce"):
            finished(other)
