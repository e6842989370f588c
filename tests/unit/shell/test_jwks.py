"""Whose signature is right: the keys of a set, which change; and tokens that only look right."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from chronik.core.access.oauth import InvalidToken
from chronik.core.access.sasl import NotReady
from chronik.core.config.sections.sasl import SaslConfig
from chronik.shell import jwks
from chronik.shell.jwks import JwksKeys, fetch, parsed
from tests.tokens import Issuer, unsigned


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


def keys_from(url: str) -> JwksKeys:
    keys = JwksKeys(SaslConfig(sasl_oauthbearer_jwks_endpoint_url=url))
    asyncio.run(keys.refresh())
    keys.stop()
    return keys


def keys_of(issuer: Issuer) -> JwksKeys:
    return keys_from(f"file://{issuer.path}")


def test_a_token_that_was_signed_by_a_key_of_the_set_is_taken(issuer: Issuer) -> None:
    assert keys_of(issuer).claims(issuer.token())["sub"] == "alice"


def test_a_key_of_an_elliptic_curve_is_one_too(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    curve = ECKey.generate_key("P-256", {"kid": "second"})
    issuer.publish(issuer.key, curve)
    keys = keys_of(issuer)
    assert keys.claims(issuer.token(curve, "ES256"))["sub"] == "alice"
    assert keys.claims(issuer.token())["sub"] == "alice"


def test_what_only_looks_like_a_token_of_the_issuer_is_refused(issuer: Issuer) -> None:
    """`alg: none`, HS256 with the public key as the secret, another key of the same name, a changed claim."""
    keys = keys_of(issuer)
    stranger = issuer.another_key()
    head, claims, signature = issuer.token().split(".")
    other_claims = unsigned(sub="root").split(".")[1]
    for token in (
        unsigned(),
        issuer.with_public_key_as_secret(),
        issuer.token(stranger),
        f"{head}.{other_claims}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        "",
        "a.b.c",
        "." * 10_000,
    ):
        with pytest.raises(InvalidToken):
            keys.claims(token)


def test_a_set_with_a_secret_in_it_does_not_make_the_secret_a_key(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    secret = OctKey.generate_key(256, {"kid": "shared"})
    issuer.path.write_text(json.dumps({"keys": [issuer.key.as_dict(private=False), secret.as_dict(private=True)]}))
    with pytest.raises(InvalidToken, match="alg"):
        keys_of(issuer).claims(issuer.token(secret, "HS256"))


def test_before_the_keys_are_there_neither_yes_nor_no_is_said(tmp_path: Path) -> None:
    keys = keys_from(f"file://{tmp_path}/missing")
    with pytest.raises(NotReady):
        keys.claims("a.b.c")


def test_keys_change_and_the_last_good_ones_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(tmp_path)
    old = issuer.token()
    new_key = RSAKey.generate_key(2048, {"kid": "second"})
    new = issuer.token(new_key)

    async def inside() -> None:
        keys = JwksKeys(SaslConfig(sasl_oauthbearer_jwks_endpoint_url=f"file://{issuer.path}"))
        assert await keys.refresh()
        with pytest.raises(InvalidToken, match="kid"):
            keys.claims(new)
        assert keys._is_missed.is_set(), "the next fetch comes sooner"
        issuer.publish(new_key)
        assert await keys.refresh()
        assert keys.claims(new)
        with pytest.raises(InvalidToken):
            keys.claims(old)
        issuer.path.write_text("no keys")
        assert not await keys.refresh()
        assert keys.claims(new)
        keys.stop()

    asyncio.run(inside())
    assert "cannot be had" in caplog.text


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [{"kty": "RSA"}]}',
                                     b'{"keys": [7]}', b"[" * 50_000])  # fmt: skip
def test_what_is_no_set_of_keys_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        parsed(content)


class Answering(BaseHTTPRequestHandler):
    """An address with keys, or with something that is none."""

    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"keys": []}' if self.path == "/keys" else b"x" * (jwks.SET_BYTES_MAX + 1))

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_address_is_fetched_within_bounds_and_without_going_elsewhere(address: str) -> None:
    assert fetch(f"{address}/keys") == b'{"keys": []}'
    with pytest.raises(OSError, match="302"):
        fetch(f"{address}/elsewhere")
    with pytest.raises(ValueError, match="more than"):
        fetch(f"{address}/large")
