"""The transactions of a cluster, and one of them: how it stands, since when, and which partitions wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronik.client.transactions import ONGOING, OPEN_STATES, TransactionDescription, TransactionListing
from chronik.console.pages.frame import Frame, paged, rows_words

PAGE_SIZE = 100
WHICH = ("open", "all")


@dataclass(frozen=True)
class TransactionRow:
    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    is_open: bool


@dataclass(frozen=True)
class TransactionsPage:
    frame: Frame
    query: str
    only: str
    rows: tuple[TransactionRow, ...]
    total: int
    page: int
    pages: int
    words: str


def transactions_page(
    frame: Frame, found: Sequence[TransactionListing], query: str, only: str, page: int
) -> TransactionsPage:
    words = query.lower().split()
    fitting = [one for one in found if all(word in one.transactional_id.lower() for word in words)]
    page, begin, end = paged(len(fitting), page, PAGE_SIZE)
    rows = tuple(
        TransactionRow(one.transactional_id, one.state, one.producer_id, one.coordinator, one.state in OPEN_STATES)
        for one in fitting[begin:end]
    )
    pages = max((len(fitting) + PAGE_SIZE - 1) // PAGE_SIZE, 1)
    noun = "open transaction" if only == "open" else "transactional id"
    return TransactionsPage(
        frame, query, only, rows, len(fitting), page, pages, rows_words(begin, end, len(fitting), noun)
    )


@dataclass(frozen=True)
class HeldPartition:
    """One that the transaction has written to. Readers of committed records get nothing beyond its stable offset."""

    topic: str
    partition: int
    stable_offset: int | None


@dataclass(frozen=True)
class TransactionPage:
    frame: Frame
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_s: float
    open_s: float | None
    """None where nothing is open."""
    is_overdue: bool
    """Open for longer than its timeout: its coordinator is to abort it."""
    can_be_aborted: bool
    partitions: tuple[HeldPartition, ...]


def transaction_page(
    frame: Frame, found: TransactionDescription, stable: Mapping[tuple[str, int], int | None], now_ms: int
) -> TransactionPage:
    open_ms = found.open_ms(now_ms)
    return TransactionPage(
        frame, found.transactional_id, found.state, found.producer_id, found.producer_epoch, found.coordinator,
        found.timeout_ms / 1000, None if open_ms is None else open_ms / 1000,
        open_ms is not None and open_ms > found.timeout_ms, found.state == ONGOING,
        tuple(HeldPartition(topic, number, stable.get((topic, number))) for topic, number in found.partitions),
    )  # fmt: skip
