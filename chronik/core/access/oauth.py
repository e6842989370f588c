"""OAUTHBEARER (RFC 7628, KIP-255, KIP-768), the server's side: a client shows a token that others have signed.

    client: n,,^Aauth=Bearer <token>^A^A
    server: (nothing: it is let in), or {"status":"invalid_token"}
    client: ^A                          it has heard; only then it is refused, with the reason

Whose signature is right is for `TokenKeys` to say; what the claims must be is said here. A token that nothing has
signed is taken only where Kafka's unsecured validator is configured.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chronik.core.access.scram import AuthenticationFailed

OAUTHBEARER = "OAUTHBEARER"
MESSAGE_BYTES_MAX = 64 * 1024
NAME_CHARACTERS_MAX = 1024
_SEPARATOR = "\x01"
_AUTHORIZATION_ID = re.compile(r"n,(?:a=((?:[^=,\x00]|=2C|=3D)+))?,")
_KEY = re.compile(r"[A-Za-z]+")
_BEARER = re.compile(r"bearer +([-\w.~+/]+=*) *", re.IGNORECASE)
_INVALID = b'{"status":"invalid_token"}'


class InvalidToken(Exception):
    """The message says what is wrong with it, and nothing of what it has."""


class TokenKeys(Protocol):
    """Tells tokens that the right keys have signed from all others."""

    def claims(self, token: str) -> Mapping[str, Any]:
        """Raises InvalidToken, and NotReady while the keys are not known."""


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """What is known of a client by its token."""

    user: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What a token must say, by `sasl.oauthbearer.*`."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()  # one of them
    scope_claim: str = "scope"
    name_claim: str = "sub"
    skew_ms: int = 30_000
    required_scope: tuple[str, ...] = ()
    needs_issue_time: bool = True

    def check(self, claims: Mapping[str, Any], now_ms: int) -> OAuthToken:
        """Raises InvalidToken."""
        expires_ms = _time(claims, "exp")
        if expires_ms is None:
            raise InvalidToken("it does not say when it expires (exp)")
        if now_ms - self.skew_ms >= expires_ms:
            raise InvalidToken("it has expired (exp)")
        issued_ms, begins_ms = _time(claims, "iat"), _time(claims, "nbf")
        if issued_ms is None and self.needs_issue_time:
            raise InvalidToken("it does not say when it was issued (iat)")
        if any(moment is not None and moment > now_ms + self.skew_ms for moment in (issued_ms, begins_ms)):
            raise InvalidToken("it is not valid yet (iat, nbf)")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise InvalidToken("it is of another issuer (iss)")
        if self.audiences and not set(_texts(claims.get("aud"))) & set(self.audiences):
            raise InvalidToken("it is for another audience (aud)")
        scopes = {scope for text in _texts(claims.get(self.scope_claim)) for scope in text.split()}
        if not scopes.issuperset(self.required_scope):
            raise InvalidToken("it lacks a scope")
        name = claims.get(self.name_claim)
        if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARACTERS_MAX:
            raise InvalidToken(f"it does not say whose it is ({self.name_claim})")
        return OAuthToken(name, expires_ms)


def _time(claims: Mapping[str, Any], key: str) -> int | None:
    """In milliseconds. Raises InvalidToken."""
    value = claims.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**11:
        raise InvalidToken(f"it has no sensible time ({key})")
    return int(value * 1000)


def _texts(value: Any) -> Sequence[str]:
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str)]


def unsecured_claims(token: str) -> Mapping[str, Any]:
    """Of a token that nothing has signed. Raises InvalidToken."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise InvalidToken("it is signed, and only unsecured tokens are taken here")
    header, claims = _decoded(parts[0]), _decoded(parts[1])
    if header.get("alg") != "none":
        raise InvalidToken("its algorithm is not 'none', and only unsecured tokens are taken here")
    return claims


def _decoded(part: str) -> Mapping[str, Any]:
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as problem:
        raise InvalidToken("it is no JSON Web Token") from problem
    if not isinstance(found, dict):
        raise InvalidToken("it is no JSON Web Token")
    return found


# From the text of a token to what it says. Raises InvalidToken, NotReady.
Validator = Callable[[str], OAuthToken]


class OAuthExchange:
    """One client's exchange."""

    def __init__(self, validate: Validator) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self.user = ""
        self.is_complete = False
        self.expires_ms: int | None = None  # by the wall clock

    def step(self, message: bytes) -> bytes:
        """Raises AuthenticationFailed, NotReady."""
        if self._refusal is not None:
            raise AuthenticationFailed(self._refusal)
        token, authorization_id = _first_message(message)
        try:
            found = self._validate(token)
        except InvalidToken as problem:
            self._refusal = f"Authentication failed: the token is not taken: {problem}"
            return _INVALID
        if authorization_id and authorization_id != found.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from the token's"
                " principal name"
            )
        self.user, self.expires_ms, self.is_complete = found.user, found.expires_ms, True
        return b""


def _first_message(message: bytes) -> tuple[str, str]:
    """The token, and the authorization id if there is one. Raises AuthenticationFailed."""
    malformed = AuthenticationFailed("Invalid OAUTHBEARER client first message")
    if len(message) > MESSAGE_BYTES_MAX:
        raise malformed
    try:
        text = message.decode()
    except UnicodeDecodeError as problem:
        raise malformed from problem
    head, separator, rest = text.partition(_SEPARATOR)
    found = _AUTHORIZATION_ID.fullmatch(head)
    if found is None or not separator or not rest.endswith(_SEPARATOR * 2):
        raise malformed
    pairs: dict[str, str] = {}
    for pair in rest[:-2].split(_SEPARATOR):
        key, equals, value = pair.partition("=")
        if not equals or not _KEY.fullmatch(key) or key in pairs:
            raise malformed
        pairs[key] = value
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise malformed
    return bearer[1], (found[1] or "").replace("=2C", ",").replace("=3D", "=")


def client_first(token: str) -> bytes:
    """What a client sends."""
    return f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()
