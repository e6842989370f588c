"""Delegation tokens are made, renewed and ended (KIP-48, KIP-373)."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chronik.core.access.delegation_tokens import DelegationToken, secret_of
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import MetadataCommand
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    token_record,
)

TOKENS_MAX = 100_000  # Kafka has no limit
RENEWERS_MAX = 100
NAME_CHARACTERS_MAX = 1024
REMOVED_AT_ONCE_MAX = 1_000


@dataclass(frozen=True, slots=True)
class CreateToken(MetadataCommand[DelegationToken]):
    """Answer: the DelegationToken. `token_id` is new; a lifetime that is not positive is the longest there is."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    lifetime_ms: int


@dataclass(frozen=True, slots=True, repr=False)  # it has what one logs in with
class RenewToken(MetadataCommand[int]):
    """Answer: until when it lasts. A period that is not positive is the usual one."""

    secret: bytes
    principal: KafkaPrincipal
    period_ms: int


@dataclass(frozen=True, slots=True, repr=False)
class ExpireToken(MetadataCommand[int]):
    """Answer: until when it lasts. A negative period ends it at once."""

    secret: bytes
    principal: KafkaPrincipal
    period_ms: int


def create_token(
    image: MetadataImage, command: CreateToken, wall_ms: int
) -> tuple[list[DelegationTokenRecord], DelegationToken]:
    """Raises Refused."""
    config = image.node_config.delegation
    _key(image)
    principals = (command.owner, command.requester, *command.renewers)
    if any(principal.principal_type != USER_TYPE for principal in principals):
        raise Refused(Code.INVALID_PRINCIPAL_TYPE)
    if any(not 0 < len(principal.name) <= NAME_CHARACTERS_MAX for principal in principals):
        raise Refused(Code.INVALID_REQUEST, f"a principal has 1 to {NAME_CHARACTERS_MAX} characters")
    if len(command.renewers) > RENEWERS_MAX or len(image.access.tokens) >= TOKENS_MAX:
        raise Refused(
            Code.INVALID_REQUEST, f"at most {RENEWERS_MAX} renewers of a token, and {TOKENS_MAX} tokens in the cluster"
        )
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if command.lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, command.lifetime_ms)
    max_ms = wall_ms + lifetime_ms
    token = DelegationToken(
        command.token_id,
        command.owner,
        command.requester,
        command.renewers,
        wall_ms,
        max_ms,
        min(max_ms, wall_ms + config.delegation_token_expiry_time_ms),
    )
    return [token_record(token)], token


def renew_token(image: MetadataImage, command: RenewToken, wall_ms: int) -> tuple[list[DelegationTokenRecord], int]:
    """Raises Refused."""
    token = _owned(image, command.secret, command.principal, wall_ms)
    period_ms = image.node_config.delegation.delegation_token_expiry_time_ms
    if command.period_ms > 0:
        period_ms = min(period_ms, command.period_ms)
    return _lasting_until(token, wall_ms + period_ms)


def expire_token(
    image: MetadataImage, command: ExpireToken, wall_ms: int
) -> tuple[Sequence[DelegationTokenRecord | RemoveDelegationTokenRecord], int]:
    """Raises Refused."""
    token = _owned(image, command.secret, command.principal, wall_ms)
    if command.period_ms < 0:
        return [RemoveDelegationTokenRecord(token.token_id)], wall_ms
    return _lasting_until(token, wall_ms + command.period_ms)


def tokens_over(image: MetadataImage, wall_ms: int) -> list[RemoveDelegationTokenRecord]:
    """Those that nothing can be done with any more, some at a time."""
    over = [token.token_id for token in image.access.tokens.values() if token.is_over(wall_ms)]
    return [RemoveDelegationTokenRecord(token_id) for token_id in over[:REMOVED_AT_ONCE_MAX]]


def _lasting_until(token: DelegationToken, expires_ms: int) -> tuple[list[DelegationTokenRecord], int]:
    until_ms = min(token.max_ms, expires_ms)
    return [token_record(replace(token, expires_ms=until_ms))], until_ms


def _key(image: MetadataImage) -> str:
    """Raises Refused."""
    key = image.node_config.token_key
    if key is None:
        raise Refused(Code.DELEGATION_TOKEN_AUTH_DISABLED, "Delegation Token feature is not enabled.")
    return key


def _owned(image: MetadataImage, secret: bytes, principal: KafkaPrincipal, wall_ms: int) -> DelegationToken:
    """The token with this secret, if it is this principal's to change. Raises Refused."""
    key = _key(image)
    for token in image.access.tokens.values():
        if hmac.compare_digest(secret_of(key, token.token_id), secret):
            break
    else:
        raise Refused(Code.DELEGATION_TOKEN_NOT_FOUND)
    if token.is_over(wall_ms):
        raise Refused(Code.DELEGATION_TOKEN_EXPIRED)
    if not token.is_of(principal):
        raise Refused(Code.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token
