"""Idempotent and transactional producers."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import DAY_MS, INT, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class TransactionsConfig(Section):
    """Idempotent and transactional producers."""

    producer_id_expiration_ms: int = setting(
        INT, DAY_MS, "An idempotent producer silent for this long is forgotten.", at_least(1), dynamic=True
    )
    transaction_max_timeout_ms: int = setting(
        INT, 900_000, "The longest timeout a transaction may ask for.", at_least(1)
    )
