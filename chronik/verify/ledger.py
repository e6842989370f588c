"""What was sent and acknowledged, and what was consumed. Arrays: a million messages take some 40 MB, not 400."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from chronik.verify.messages import Messages
from chronik.verify.pulse import Pulse

UNSENT, SENT, ACKNOWLEDGED, REFUSED = range(4)
UNKNOWN = -1

Seconds = Callable[[], float]
"""The time since the run began."""


class ReceivedRecord(NamedTuple):
    """What a consumer was given."""

    value: bytes | None
    partition: int
    offset: int


class LedgerPlace(NamedTuple):
    partition: int
    offset: int


class Ledger:
    """What was reported to the producer about each message, by number. Threads of clients write here."""

    def __init__(self, messages: int, seconds: Seconds, is_answered: bool = True) -> None:
        self.messages = messages
        self.is_answered = is_answered
        """With acks=0 no node says anything: what is 'acknowledged' then is so by the client alone."""
        self.states = bytearray(messages)
        self.partitions = array("i", [UNKNOWN]) * messages
        self.offsets = array("q", [UNKNOWN]) * messages
        """UNKNOWN where the acknowledgement named none: with acks=0, or of a retry that had already arrived."""
        self.errors: dict[str, int] = {}
        """What the client said of messages that were refused, and how often."""
        self.pulse = Pulse("produce", seconds())
        self._seconds = seconds
        self._lock = threading.Lock()

    def send(self, number: int, partition: int | None) -> None:
        """It is about to be handed to the client."""
        self.states[number] = SENT
        if partition is not None:
            self.partitions[number] = partition

    def acknowledge(self, number: int, partition: int | None, offset: int | None) -> None:
        if partition is not None and partition >= 0:
            self.partitions[number] = partition
        if offset is not None and offset >= 0 and self.is_answered:  # librdkafka makes offsets up for acks=0
            self.offsets[number] = offset
        self.states[number] = ACKNOWLEDGED
        self.pulse.beat(self._seconds())

    def refuse(self, number: int, reason: str) -> None:
        with self._lock:
            self.states[number] = REFUSED
            self.errors[reason] = self.errors.get(reason, 0) + 1

    @property
    def sent(self) -> int:
        return self.messages - self.states.count(UNSENT)

    @property
    def acknowledged(self) -> int:
        return self.states.count(ACKNOWLEDGED)

    @property
    def waiting(self) -> int:
        """Sent, and neither acknowledged nor refused yet."""
        return self.states.count(SENT)

    @property
    def quiet_s(self) -> float:
        """Since something was last acknowledged, or sending began."""
        return self.pulse.quiet_s(self._seconds())

    def is_acknowledged(self, number: int) -> bool:
        return self.states[number] == ACKNOWLEDGED

    def place(self, number: int) -> LedgerPlace:
        return LedgerPlace(self.partitions[number], self.offsets[number])


class DeliveredMessages:
    """What the consumer was given, in the order in which it was given it."""

    def __init__(self, messages: Messages, count: int, seconds: Seconds) -> None:
        self.numbers = array("q")
        self.partitions = array("i")
        self.offsets = array("q")
        self.pulse = Pulse("consume", seconds())
        self.distinct = 0
        self._seen = bytearray(count)
        self._messages = messages
        self._seconds = seconds

    def take(self, records: Iterable[ReceivedRecord]) -> None:
        """What one poll gave. Messages of others are kept too: their offsets are no gaps."""
        numbers = [self._take(record) for record in records]
        if numbers:
            self.pulse.beat(self._seconds(), len(numbers))

    def _take(self, record: ReceivedRecord) -> int:
        number = self._messages.number(record.value)
        self.numbers.append(number)
        self.partitions.append(record.partition)
        self.offsets.append(record.offset)
        if 0 <= number < len(self._seen) and not self._seen[number]:
            self._seen[number] = 1
            self.distinct += 1
        return number

    def __len__(self) -> int:
        return len(self.numbers)

    def has(self, number: int) -> bool:
        return bool(self._seen[number])


def missing(ledger: Ledger, delivered: DeliveredMessages) -> Iterator[int]:
    """The numbers that were sent and not consumed, acknowledged or not."""
    return (number for number, state in enumerate(ledger.states) if state != UNSENT and not delivered.has(number))
