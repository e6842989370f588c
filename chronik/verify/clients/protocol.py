"""What a run wants of a client: send these messages and tell what became of each; give what there is to consume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from chronik.verify.errors import Stopped
from chronik.verify.ledger import Ledger, ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.settings import VerifyAcks

FLUSH_S = 0.5
"""To wait for answers between two looks at whether it is to end."""
IN_FLIGHT_MAX = 50_000
"""Messages that wait for their acknowledgement: more would only wait longer, in the client's memory."""


@dataclass(frozen=True)
class Sending:
    """How to send. `partitions` is how many to go round; None leaves the choice to the client."""

    topic: str
    client_id: str
    acks: VerifyAcks
    is_idempotent: bool
    timeout_s: float
    partitions: int | None
    is_stopped: Callable[[], bool]
    """Looked at again and again: clients do not take it well to be broken off from outside."""

    def partition(self, number: int) -> int | None:
        return None if self.partitions is None else number % self.partitions


@dataclass(frozen=True)
class Receiving:
    """How to consume: as the only member of `group`, or, without one, from `starts` on."""

    topic: str
    client_id: str
    group: str | None
    starts: Mapping[int, int]
    """Every partition, with the offset to be read first. A group finds it among what it has committed."""
    max_poll_records: int
    is_committed_only: bool = False
    """With read_committed."""
    is_auto_commit: bool = True
    """Where there is a group. Else its offsets are committed in transactions."""


def until_stopped(order: Sending) -> None:
    """Raises Stopped."""
    if order.is_stopped():
        raise Stopped


def is_in_vain(order: Sending, ledger: Ledger) -> bool:
    """Whether to send no more: for twice a message's time nothing was acknowledged."""
    until_stopped(order)
    return ledger.quiet_s > 2 * order.timeout_s


class ProducerFailed(Exception):
    """The client did not even start; the message is what it said."""


class ConsumerFailed(Exception):
    """The client gave up; the message is what it said."""


class TransactionFailed(Exception):
    """The client could not do it; the message is what it said. The transaction is to be given up, with its producer."""


class TransactionalProducer(Protocol):
    """One producer with a transactional id: the one before it is fenced when it is there. Raises TransactionFailed."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int) -> None: ...

    def send_offsets(self, consumer: Consumer, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Of the topic that the consumer reads: the next ones of each partition."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Consumer(Protocol):
    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        """What came, as soon as anything has; nothing when nothing did in time. Raises ConsumerFailed."""
        ...

    def close(self) -> None: ...


def library_of(consumer: Consumer) -> Any:
    """The client's own object: a producer of the same client wants its group's metadata."""
    return cast(Any, consumer).library


class VerifyClient(Protocol):
    @property
    def version(self) -> str: ...

    def produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        """Sends all that the ledger has room for, and returns when each is answered or its time is up.
        Raises ProducerFailed, and Stopped when it is to end at once."""
        ...

    def consumer(self, order: Receiving) -> Consumer:
        """Raises ConsumerFailed."""
        ...


class TransactionalClient(VerifyClient, Protocol):
    """All three have transactions."""

    def transactional(self, name: str, timeout_s: float) -> TransactionalProducer:
        """With this transactional id; `timeout_s` is for each step, and for a transaction. Raises TransactionFailed."""
        ...
