"""Delegation tokens are made, renewed and ended."""

from __future__ import annotations

import pytest

from chronik.core.access.delegation_tokens import secret_of
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import AnyMetadataCommand, MetadataMachine
from chronik.core.machines.metadata.records import decode, encode
from chronik.core.machines.metadata.snapshots import gone_since, records_of
from chronik.core.machines.metadata.token_changes import CreateToken, ExpireToken, RenewToken

ALICE, BOB, EVE = (KafkaPrincipal("User", name) for name in ("alice", "bob", "eve"))
KEY, HOUR_MS, DAY_MS = "key", 3_600_000, 86_400_000
SETTINGS = {"delegation.token.secret.key": KEY}


class Tokens:
    """A machine with a clock."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        config = NodeConfig.from_settings(SETTINGS if settings is None else settings)
        self.machine = MetadataMachine(MetadataImage("c", config))
        self.now_ms = 1_000_000

    def ask(self, command: AnyMetadataCommand) -> object:
        decision = self.machine.decide(1, command, 5, self.now_ms)
        for fact in decision.facts:
            self.machine.replay(self.machine.encode(fact))
        return decision.replies[0].answer

    def make(self, lifetime_ms: int = -1, owner: KafkaPrincipal = ALICE) -> bytes:
        self.ask(CreateToken("id", owner, ALICE, (BOB,), lifetime_ms))
        return secret_of(KEY, "id")

    @property
    def expires_ms(self) -> int:
        return self.machine.image.access.tokens["id"].expires_ms


def refused(tokens: Tokens, command: AnyMetadataCommand) -> Code:
    with pytest.raises(Refused) as problem:
        tokens.ask(command)
    return problem.value.code


def test_a_token_lasts_a_day_and_can_be_renewed_for_a_week() -> None:
    tokens = Tokens()
    tokens.make()
    made = tokens.machine.image.access.tokens["id"]

    assert (made.owner, made.requester, made.renewers) == (ALICE, ALICE, (BOB,))
    assert (made.issued_ms, made.expires_ms, made.max_ms) == (
        tokens.now_ms, tokens.now_ms + DAY_MS, tokens.now_ms + 7 * DAY_MS,
    )  # fmt: skip


def test_a_token_is_renewed_by_those_it_names_and_never_beyond_its_life() -> None:
    tokens = Tokens()
    secret = tokens.make(lifetime_ms=2 * DAY_MS)
    end_ms = tokens.now_ms + 2 * DAY_MS
    tokens.now_ms += DAY_MS

    assert tokens.ask(RenewToken(secret, BOB, HOUR_MS)) == tokens.now_ms + HOUR_MS == tokens.expires_ms
    assert tokens.ask(RenewToken(secret, ALICE, -1)) == end_ms
    assert refused(tokens, RenewToken(secret, EVE, -1)) is Code.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refused(tokens, RenewToken(b"another", ALICE, -1)) is Code.DELEGATION_TOKEN_NOT_FOUND
    tokens.now_ms = end_ms + 1
    assert refused(tokens, RenewToken(secret, ALICE, -1)) is Code.DELEGATION_TOKEN_EXPIRED


def test_a_token_ends_sooner_or_at_once() -> None:
    tokens = Tokens()
    secret = tokens.make()

    assert refused(tokens, ExpireToken(secret, EVE, -1)) is Code.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.ask(ExpireToken(secret, BOB, 10)) == tokens.now_ms + 10 == tokens.expires_ms
    tokens.ask(ExpireToken(secret, ALICE, -1))
    assert tokens.machine.image.access.tokens == {}


def test_without_a_key_there_are_no_tokens_and_renewers_are_users() -> None:
    assert refused(Tokens({}), CreateToken("id", ALICE, ALICE, (), -1)) is Code.DELEGATION_TOKEN_AUTH_DISABLED
    group = KafkaPrincipal("Group", "g")
    assert refused(Tokens(), CreateToken("id", ALICE, ALICE, (group,), -1)) is Code.INVALID_PRINCIPAL_TYPE


def test_tokens_that_are_over_are_removed_when_it_is_time_to_look() -> None:
    tokens = Tokens()
    tokens.make(lifetime_ms=10)
    machine = tokens.machine
    assert machine.next_deadline_ms() == 0
    for fact in machine.expire(5, tokens.now_ms).facts:
        machine.apply(fact)
    assert machine.next_deadline_ms() == 5 + HOUR_MS
    assert machine.image.access.tokens

    for fact in machine.expire(5 + HOUR_MS, tokens.now_ms + HOUR_MS).facts:
        machine.apply(fact)
    assert machine.image.access.tokens == {}
    assert machine.next_deadline_ms() is None


def test_a_snapshot_has_the_tokens_and_no_secret() -> None:
    """F69"""
    tokens = Tokens()
    secret = tokens.make()
    image, copy = tokens.machine.image, MetadataImage("c", NodeConfig())
    written = [encode(record) for record in records_of(image)]

    copy.refill((record for value in written if (record := decode(value)) is not None), image.version)
    assert copy.access == image.access
    assert not any(secret in value or KEY.encode() in value for value in written)
    assert len([*gone_since(image, MetadataImage("c", NodeConfig()))]) == 1
