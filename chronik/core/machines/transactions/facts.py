"""What can become true in a transactions machine. Durable facts are records in `__transaction_state` (records.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from chronik.core.machines.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True)
class TransactionSet:
    """A transactional id is in this state. `record_version` is that of Kafka's TransactionLogValue."""

    durable: ClassVar[bool] = True
    transaction: Transaction
    record_version: int = 1
    deadline_ms: int | None = None  # when it is aborted, in steady time, while it is ongoing: not in the record


@dataclass(frozen=True, slots=True)
class TransactionForgotten:
    """A transactional id has expired."""

    durable: ClassVar[bool] = True
    transactional_id: str


@dataclass(frozen=True, slots=True)
class DeadlineSet:
    """When an ongoing transaction, known from the log, is aborted."""

    durable: ClassVar[bool] = False
    transactional_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class ExpiryLookedAt:
    """Expired ids were looked for; the next look is due then. The first is when the machine has been replayed."""

    durable: ClassVar[bool] = False
    next_ms: int


TransactionFact: TypeAlias = TransactionSet | TransactionForgotten | DeadlineSet | ExpiryLookedAt
