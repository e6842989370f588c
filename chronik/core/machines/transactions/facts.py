"""What can become true in a transactions machine. Durable facts are records in `__transaction_state` (records.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, TypeAlias

from chronik.core.machines.transactions.transaction import Transaction


class EndReason(StrEnum):
    """Why a transaction ends."""

    CLIENT = "client"  # its producer, or an administrator in its name
    TIMEOUT = "timeout"
    FENCED = "fenced"  # another producer with its id has begun


@dataclass(frozen=True, slots=True)
class TransactionSet:
    """A transactional id is in this state. `record_version` is that of Kafka's TransactionLogValue."""

    durable: ClassVar[bool] = True
    transaction: Transaction
    record_version: int = 1
    deadline_ms: int | None = None  # when it is aborted, in steady time, while it is ongoing: not in the record
    # For those that watch, and neither in the record: what was so far, and why it ends now.
    before: Transaction | None = field(default=None, compare=False)
    reason: EndReason = field(default=EndReason.CLIENT, compare=False)


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
