"""Which messages are in which transaction, which of them are aborted on purpose, and what became of each. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

LAST_PREFIX = b"the last record of "
COPY_PREFIX = b"copy of "


class TransactionOutcome(StrEnum):
    """What the client was answered for a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_DOUBT = "in doubt"  # its commit failed without an answer: all of it counts, or nothing


@dataclass(frozen=True)
class TransactionalSettings:
    """What of a run is particular to transactions."""

    size: int = 100
    abort_rate: float = 0.1
    is_copy: bool = False


@dataclass(frozen=True)
class TransactionPlan:
    """So many messages, so many in each transaction; the same mark aborts the same ones."""

    messages: int
    size: int
    abort_rate: float
    mark: str

    def __len__(self) -> int:
        return -(-self.messages // self.size)

    def numbers(self, transaction: int) -> range:
        return range(transaction * self.size, min((transaction + 1) * self.size, self.messages))

    def is_aborted(self, transaction: int, attempt: int = 0) -> bool:
        return random.Random(f"{self.mark}:{transaction}:{attempt}").random() < self.abort_rate


@dataclass
class TransactionBook:
    """What became of each transaction that was begun, by its number."""

    outcomes: dict[int, TransactionOutcome] = field(default_factory=dict)
    aborted_for_errors: int = 0  # given up before they were to be committed, and sent again
    restarts: int = 0  # of the producer
    errors: dict[str, int] = field(default_factory=dict)

    def failed(self, reason: str) -> None:
        self.errors[reason] = self.errors.get(reason, 0) + 1
        self.restarts += 1

    def count(self, outcome: TransactionOutcome) -> int:
        return sum(each is outcome for each in self.outcomes.values())

    def of(self, outcome: TransactionOutcome) -> Iterator[int]:
        return (transaction for transaction, each in self.outcomes.items() if each is outcome)


def last_value(mark: str) -> bytes:
    """Stands at the end of each partition: a reader that has it has read all before it."""
    return LAST_PREFIX + mark.encode()
