"""SASL, the server's side: a connection's way from a stranger to a principal.

    handshake(mechanism)   which mechanism is to be used
    step(message)          the mechanism's messages, until `principal` is there

A session may have an end (`connections.max.reauth.ms`): from then on the connection is good for logging in anew and for
nothing else (KIP-368). Who logs in anew stays who it was.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chronik.core.access.oauth import OAUTHBEARER, OAuthExchange, Validator
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.core.access.scram import (
    SCRAM_MECHANISMS,
    AuthenticationFailed,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    TokenCredential,
)
from chronik.core.errors import Code, Refused

PLAIN = "PLAIN"
NODE_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS)  # by which nodes log in to each other
SASL_MECHANISMS = (*NODE_MECHANISMS, OAUTHBEARER)
PLAIN_BYTES_MAX = 4096

# What is known of a user's password for a mechanism, None: there is no such user.
Credentials = Callable[[str, ScramMechanism], ScramCredential | None]


class NotReady(Exception):
    """Which users there are is not known yet: neither yes nor no."""


class Exchange(Protocol):
    """One run of a mechanism."""

    user: str
    is_complete: bool

    def step(self, message: bytes) -> bytes:
        """The answer to a client's message. Raises AuthenticationFailed."""


class PlainExchange:
    """PLAIN (RFC 4616): name and password, in one message."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user = ""
        self.is_complete = False

    def step(self, message: bytes) -> bytes:
        parts = message.split(b"\x00")
        if self.user or len(message) > PLAIN_BYTES_MAX or len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("Invalid SASL/PLAIN response")
        try:
            authorization_id, self.user = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError as problem:
            raise AuthenticationFailed("Invalid SASL/PLAIN response") from problem
        known = self._users.get(self.user)
        # A name that is not known takes as long as one that is.
        is_right = hmac.compare_digest(parts[2], (known or "\x00").encode())
        if known is None or not is_right:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != self.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.is_complete = True
        return b""


@dataclass(frozen=True, slots=True)
class SaslServer:
    """What one listener offers."""

    mechanisms: tuple[str, ...]
    nonce: Callable[[], str]
    decoy_key: bytes = field(repr=False)
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Credentials = lambda user, mechanism: None
    session_ms: int = 0  # how long a login lasts; 0: as long as the connection
    validate: Validator | None = None  # of tokens, where they are taken
    wall_ms: Callable[[], int] = lambda: 0
    tokens: Callable[[str, ScramMechanism], TokenCredential | None] | None = None  # delegation tokens, where there are

    def begin(self, mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return PlainExchange(self.plain_users)
        if mechanism == OAUTHBEARER:
            assert self.validate is not None  # or it would not be one of the mechanisms
            return OAuthExchange(self.validate)
        scram = SCRAM_MECHANISMS[mechanism]
        tokens = self.tokens
        return ScramExchange(
            scram,
            lambda user: self.credentials(user, scram),
            self.nonce(),
            self.decoy_key,
            None if tokens is None else lambda token_id: tokens(token_id, scram),
        )


class SaslLogin:
    """Of one connection."""

    __slots__ = (
        "_exchange",
        "_mechanism",
        "_now_ms",
        "_on_principal",
        "_scram",
        "_server",
        "ends_ms",
        "is_raw",
        "principal",
        "session_lifetime_ms",
    )

    def __init__(
        self, server: SaslServer, now_ms: Callable[[], int], on_principal: Callable[[KafkaPrincipal], None]
    ) -> None:
        self._server = server
        self._now_ms = now_ms
        self._on_principal = on_principal
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._scram: ScramExchange | None = None  # by which it logged in: what it used may be taken away
        self.principal: KafkaPrincipal | None = None
        self.session_lifetime_ms = 0  # of the last login, for the response: 0 for ever
        self.ends_ms: int | None = None  # when it has to log in anew
        self.is_raw = False  # the mechanism's messages come without Kafka's headers: after version 0 of the handshake

    @property
    def is_open(self) -> bool:
        """Whether anything but logging in may be asked."""
        if self.principal is None:
            return False
        return self.ends_ms is None or self._now_ms() < self.ends_ms

    @property
    def is_revoked(self) -> bool:
        """Whether its user or token is gone, or has another password by now."""
        scram = self._scram
        try:
            return scram is not None and scram.current() != scram.credential
        except NotReady:
            return False

    @property
    def is_token(self) -> bool:
        """Whether it logged in with a delegation token: then it can ask for none."""
        return self._scram is not None and self._scram.is_token

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._server.mechanisms

    def handshake(self, mechanism: str, *, is_raw: bool = False) -> None:
        """Raises Refused."""
        if self._exchange is not None or (self.principal is not None and is_raw):
            raise Refused(Code.ILLEGAL_SASL_STATE)
        if mechanism not in self._server.mechanisms:
            raise Refused(Code.UNSUPPORTED_SASL_MECHANISM)
        if self.principal is not None and mechanism != self._mechanism:
            raise Refused(Code.SASL_AUTHENTICATION_FAILED, "the mechanism cannot be changed when logging in anew")
        self._mechanism, self.is_raw = mechanism, is_raw
        self.session_lifetime_ms = 0  # until it is logged in anew
        self._exchange = self._server.begin(mechanism)

    def step(self, message: bytes) -> bytes:
        """The answer to a message of the mechanism. Raises Refused, and AuthenticationFailed: the connection is to be
        closed then."""
        exchange = self._exchange
        if exchange is None:
            raise Refused(Code.ILLEGAL_SASL_STATE)
        answer = exchange.step(message)
        if exchange.is_complete:
            principal = KafkaPrincipal(USER_TYPE, exchange.user)
            if self.principal is not None and principal != self.principal:
                raise AuthenticationFailed("Cannot change principals during re-authentication")
            self._exchange, self.is_raw, self.principal = None, False, principal
            self._scram = exchange if isinstance(exchange, ScramExchange) else None
            self.session_lifetime_ms = self._lifetime_of(exchange)
            self.ends_ms = self._now_ms() + self.session_lifetime_ms if self.session_lifetime_ms else None
            self._on_principal(principal)
        return answer

    def _lifetime_of(self, exchange: Exchange) -> int:
        """How long the login lasts, 0 for ever: never longer than the token."""
        longest_ms = self._server.session_ms
        if not isinstance(exchange, OAuthExchange | ScramExchange) or exchange.expires_ms is None:
            return longest_ms
        # One that is only let in for the difference of clocks is over at once, as in Kafka.
        left_ms = max(exchange.expires_ms - self._server.wall_ms(), 1)
        return min(longest_ms, left_ms) if longest_ms else left_ms
