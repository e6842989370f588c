"""The settings that a transaction coordinator decides by, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

IDS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class TransactionsConfig:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 86_400_000
    expired_check_interval_ms: int = 3_600_000
    append_timeout_ms: int = 5_000
    ids_max: int = IDS_MAX  # of one partition: each is kept in memory
