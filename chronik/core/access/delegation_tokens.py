"""Delegation tokens (KIP-48): a client that has logged in asks for a token, with which others log in as it.

A token is an id and a secret, which is made of the id and of the key that all nodes have
(`delegation.token.secret.key`): so the metadata log has no secret. Its holder logs in by SCRAM with the id as its name
and the secret as its password, and says `tokenauth=true`. It is then the token's owner, as long as the token lasts.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from chronik.core.access.acls import parse_principal
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    TokenCredential,
    credential_of,
)

CREDENTIALS_MAX = 10_000  # kept; they take milliseconds to make


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """As the metadata log has it."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    max_ms: int  # it cannot be renewed beyond this
    expires_ms: int

    def is_over(self, wall_ms: int) -> bool:
        return self.max_ms < wall_ms or self.expires_ms < wall_ms

    def is_of(self, principal: KafkaPrincipal) -> bool:
        """Whether it may renew it, end it and see it."""
        return principal in (self.owner, self.requester, *self.renewers)


def token_of(
    token_id: str, owner: str, requester: str, renewers: tuple[str, ...], issued_ms: int, max_ms: int, expires_ms: int
) -> DelegationToken | None:
    """None for one of principals that cannot be read: nothing logs in with it."""
    try:
        known = tuple(map(parse_principal, renewers))
        return DelegationToken(
            token_id, parse_principal(owner), parse_principal(requester), known, issued_ms, max_ms, expires_ms
        )
    except ValueError:
        return None


def secret_of(key: str, token_id: str) -> bytes:
    """What its holder knows."""
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


class TokenCredentials:
    """What holders of tokens log in with, made when it is first needed."""

    def __init__(self, key: str, find: Callable[[str], DelegationToken | None], wall_ms: Callable[[], int]) -> None:
        self._key = key
        self._find = find
        self._wall_ms = wall_ms
        self._made: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def __call__(self, token_id: str, mechanism: ScramMechanism) -> TokenCredential | None:
        """None for a token that is not there any more, or over."""
        token = self._find(token_id)
        if token is None or token.is_over(self._wall_ms()):
            self._made.pop((token_id, mechanism), None)
            return None
        made = self._made.get((token_id, mechanism))
        if made is None:
            secret = secret_of(self._key, token_id)
            salt = hmac.digest(secret, b"salt", "sha256")[:20]
            made = credential_of(mechanism, base64.b64encode(secret), salt, ITERATIONS_MIN)
            if len(self._made) >= CREDENTIALS_MAX:
                self._made.clear()
            self._made[token_id, mechanism] = made
        return TokenCredential(made, token.owner.name, min(token.expires_ms, token.max_ms))
