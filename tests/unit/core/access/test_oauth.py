"""OAUTHBEARER: what a client sends, what a token must say, and how a refusal goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from chronik.core.access.oauth import (
    OAUTHBEARER,
    ClaimRules,
    InvalidToken,
    OAuthExchange,
    OAuthToken,
    client_first,
    unsecured_claims,
)
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.sasl import SaslLogin, SaslServer
from chronik.core.access.scram import AuthenticationFailed
from tests.tokens import unsigned

NOW_MS = 1_000_000_000
SOUND = {"sub": "alice", "exp": 1_000_060, "iat": 1_000_000, "aud": "us", "iss": "them", "scope": "a b"}
RULES = ClaimRules(issuer="them", audiences=("us", "others"), skew_ms=30_000)


def validated(token: str) -> OAuthToken:
    if token != "sound":
        raise InvalidToken("it is not sound")
    return OAuthToken("alice", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "message",
    [
        client_first("sound"),
        b"n,a=alice,\x01auth=Bearer sound\x01\x01",
        b"n,,\x01traceId=7\x01auth=bearer  sound\x01\x01",
    ],
)
def test_a_token_lets_its_principal_in(message: bytes) -> None:
    exchange = OAuthExchange(validated)

    assert exchange.step(message) == b""
    assert (exchange.user, exchange.is_complete) == ("alice", True)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer sound\x01", b"n,,\x01auth=Basic sound\x01\x01",
        b"y,,\x01auth=Bearer sound\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer sound\x01auth=Bearer sound\x01\x01", b"n,,\x01au7h=Bearer sound\x01\x01", b"\xff" * 9,
        b"n,a=bob,\x01auth=Bearer sound\x01\x01", b"n,,\x01auth=Bearer " + b"x" * 70_000 + b"\x01\x01",
    ],
)  # fmt: skip
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    exchange = OAuthExchange(validated)
    with pytest.raises(AuthenticationFailed):
        exchange.step(message)
    assert not exchange.is_complete


def test_a_refusal_is_said_in_json_and_ends_with_the_next_message() -> None:
    """RFC 7628, section 3.2.3; whatever that message is, a second token included."""
    for second in (b"\x01", client_first("sound")):
        exchange = OAuthExchange(validated)
        assert exchange.step(client_first("other")) == b'{"status":"invalid_token"}'
        with pytest.raises(AuthenticationFailed, match="it is not sound"):
            exchange.step(second)
        assert not exchange.is_complete


def test_a_sound_token_says_whose_it_is_and_how_long() -> None:
    assert RULES.check(SOUND, NOW_MS) == OAuthToken("alice", 1_000_060_000)
    assert RULES.check({**SOUND, "aud": ["x", "others"]}, NOW_MS).user == "alice"
    assert RULES.check({**SOUND, "exp": 999_971}, NOW_MS).user == "alice", "clocks may differ"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "exp"), ({"exp": 999_970}, "exp"), ({"exp": True}, "exp"), ({"exp": "1"}, "exp"),
        ({"exp": 1e300}, "exp"), ({"exp": float("nan")}, "exp"), ({"iat": None}, "iat"), ({"iat": 1_000_031}, "yet"),
        ({"nbf": 1_000_031}, "yet"), ({"iss": "us"}, "iss"), ({"iss": None}, "iss"), ({"aud": "x"}, "aud"),
        ({"aud": None}, "aud"), ({"aud": {"us": 1}}, "aud"), ({"sub": None}, "sub"),
        ({"sub": " "}, "sub"), ({"sub": 7}, "sub"), ({"sub": "x" * 2000}, "sub"),
    ],
)  # fmt: skip
def test_a_token_that_is_not_for_us_is_refused(claims: Mapping[str, Any], reason: str) -> None:
    said = {key: value for key, value in {**SOUND, **claims}.items() if value is not None}
    with pytest.raises(InvalidToken, match=reason):
        RULES.check(said, NOW_MS)


def test_scopes_and_name_are_found_by_the_claims_that_are_configured() -> None:
    rules = ClaimRules(scope_claim="scp", name_claim="upn", required_scope=("read", "write"))
    said = {**SOUND, "upn": "bob", "scp": ["read", "write x"]}
    assert rules.check(said, NOW_MS).user == "bob"
    with pytest.raises(InvalidToken, match="scope"):
        rules.check({**said, "scp": "read"}, NOW_MS)


def test_an_unsecured_token_is_one_that_nothing_has_signed() -> None:
    assert unsecured_claims(unsigned(sub="bob"))["sub"] == "bob"
    for token in ("", "a.b", "a.b.c", unsigned() + "c", "eyJhbGciOiJIUzI1NiJ9.e30.", "e30.e30.", "W10.W10."):
        with pytest.raises(InvalidToken):
            unsecured_claims(token)


@pytest.mark.parametrize(("reauth_ms", "expected_ms"), [(0, 60_000), (90_000, 60_000), (10_000, 10_000)])
def test_a_login_ends_with_its_token_and_is_renewed_by_another(reauth_ms: int, expected_ms: int) -> None:
    """KIP-368"""
    now = [0]
    server = SaslServer(
        (OAUTHBEARER,), lambda: "n", b"k", session_ms=reauth_ms, validate=validated, wall_ms=lambda: NOW_MS
    )
    login = SaslLogin(server, lambda: now[0], lambda principal: None)
    login.handshake(OAUTHBEARER)
    login.step(client_first("sound"))

    assert login.principal == KafkaPrincipal("User", "alice")
    assert login.session_lifetime_ms == expected_ms
    now[0] = expected_ms - 1
    seen = [login.is_open]
    now[0] = expected_ms
    seen.append(login.is_open)
    login.handshake(OAUTHBEARER)
    login.step(client_first("sound"))
    assert [*seen, login.is_open] == [True, False, True]
