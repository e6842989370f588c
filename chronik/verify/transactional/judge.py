"""Whether a reader of committed records was given what was committed: all of it, once, in order, and no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chronik.verify.transactional.plan import TransactionBook, TransactionOutcome, TransactionPlan

SHOWN = 5


class ReadMessage(NamedTuple):
    """In the order in which a reader was given it."""

    number: int
    partition: int


@dataclass(frozen=True)
class Findings:
    """By number of the message; each is a promise broken, but `missing` where the reader did not come to the end."""

    missing: Sequence[int] = ()
    aborted_read: Sequence[int] = ()
    torn: Sequence[int] = ()  # of a transaction in doubt, while others of it were read
    duplicated: Sequence[int] = ()
    reordered: Sequence[int] = ()
    foreign: int = 0
    kept: Sequence[int] = field(default_factory=tuple)  # transactions in doubt that turn out to be committed

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.aborted_read or self.torn or self.duplicated or self.reordered or self.foreign)

    def lines(self, is_read_whole: bool) -> list[str]:
        lost = "were committed and not read" if is_read_whole else "are missing: the reader did not come to the end"
        words = {
            lost: self.missing,
            "were aborted, and read with read_committed": self.aborted_read,
            "are of a transaction of which only a part was read": self.torn,
            "were read more than once": self.duplicated,
            "were read after later ones of their partition": self.reordered,
        }
        told = [_line(numbers, what) for what, numbers in words.items() if numbers]
        return [*told, f"{self.foreign:,} records are of no message that was sent"] if self.foreign else told


def judge_produced(plan: TransactionPlan, book: TransactionBook, read: Sequence[ReadMessage]) -> Findings:
    counts = Counter(message.number for message in read)
    wanted = {number for one in book.of(TransactionOutcome.COMMITTED) for number in plan.numbers(one)}
    unwanted = {number for one in book.of(TransactionOutcome.ABORTED) for number in plan.numbers(one)}
    torn: list[int] = []
    kept: list[int] = []
    for one in book.of(TransactionOutcome.IN_DOUBT):
        numbers = plan.numbers(one)
        there = [number for number in numbers if counts[number]]
        if len(there) == len(numbers):
            kept.append(one)
        else:
            torn += there
    known = wanted | unwanted | {n for one in book.of(TransactionOutcome.IN_DOUBT) for n in plan.numbers(one)}
    return Findings(
        missing=sorted(wanted - counts.keys()),
        aborted_read=sorted(unwanted & counts.keys()),
        torn=torn,
        duplicated=sorted(number for number, count in counts.items() if count > 1 and number in known),
        reordered=_reordered(read),
        foreign=sum(count for number, count in counts.items() if number not in known),
        kept=kept,
    )


def judge_copy(source: Sequence[ReadMessage], copy: Sequence[ReadMessage]) -> Findings:
    """Both as a reader of committed records was given them."""
    wanted, counts = {message.number for message in source}, Counter(message.number for message in copy)
    return Findings(
        missing=sorted(wanted - counts.keys()),
        duplicated=sorted(number for number, count in counts.items() if count > 1 and number in wanted),
        reordered=_reordered(copy),
        foreign=sum(count for number, count in counts.items() if number not in wanted),
    )


def _reordered(read: Sequence[ReadMessage]) -> list[int]:
    highest: dict[int, int] = {}
    found = []
    for number, partition in read:
        if number < highest.get(partition, -1):
            found.append(number)
        highest[partition] = max(number, highest.get(partition, -1))
    return found


def _line(numbers: Sequence[int], what: str) -> str:
    first = ", ".join(f"{number:,}" for number in numbers[:SHOWN])
    more = f" and {len(numbers) - SHOWN:,} more" if len(numbers) > SHOWN else ""
    return f"{len(numbers):,} messages {what}: {first}{more}"
