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

from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.core.access.scram import (
    SCRAM_MECHANISMS,
    AuthenticationFailed,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
)
from chronik.core.errors import Code, Refused

PLAIN = "PLAIN"
SASL_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS)
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

    def begin(self, mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return PlainExchange(self.plain_users)
        scram = SCRAM_MECHANISMS[mechanism]
        return ScramExchange(scram, lambda user: self.credentials(user, scram), self.nonce(), self.decoy_key)


class SaslLogin:
    """Of one connection."""

    __slots__ = (
        "_credential",
        "_exchange",
        "_mechanism",
        "_now_ms",
        "_on_principal",
        "_server",
        "ends_ms",
        "is_raw",
        "principal",
    )

    def __init__(
        self, server: SaslServer, now_ms: Callable[[], int], on_principal: Callable[[KafkaPrincipal], None]
    ) -> None:
        self._server = server
        self._now_ms = now_ms
        self._on_principal = on_principal
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._credential: ScramCredential | None = None  # with which it logged in, where that may be taken away
        self.principal: KafkaPrincipal | None = None
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
        """Whether its user is gone, or has another password by now."""
        if self.principal is None or self._credential is None:
            return False
        try:
            return self._server.credentials(self.principal.name, SCRAM_MECHANISMS[self._mechanism]) != self._credential
        except NotReady:
            return False

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
            self._credential = exchange.credential if isinstance(exchange, ScramExchange) else None
            lifetime_ms = self.session_lifetime_ms
            self.ends_ms = self._now_ms() + lifetime_ms if lifetime_ms else None
            self._on_principal(principal)
        return answer

    @property
    def session_lifetime_ms(self) -> int:
        """The response once it is logged in: how long that lasts, 0 for ever."""
        return self._server.session_ms if self.principal is not None and self._exchange is None else 0
