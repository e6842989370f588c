"""What a transactions machine can be asked, and what it answers: a command's type says which answer it has.

A command is complete in itself: a producer id that may be needed comes with it. Where one is needed and none came, the
answer is `ProducerIdNeeded`, and the command is asked again with one: so none is used up for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from chronik.core.errors import Code
from chronik.core.machines.machine import AnswerT_co, Command
from chronik.core.machines.transactions.transaction import Transaction
from chronik.core.types import TopicPartition


class ProducerIdentity(NamedTuple):
    """A producer's id, and which of its lives it is in."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerIdNeeded:
    """Ask again, with a new producer id."""


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    pass


@dataclass(frozen=True, slots=True)
class PartitionsVerified:
    """One code for each partition of the command, in order."""

    codes: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class TransactionCompleted:
    """`is_new` is False when it was complete, or is another transaction by now."""

    is_new: bool


class TransactionCommand(Command[AnswerT_co]):
    """One of those below; they are all in `AnyTransactionCommand`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class InitProducer(TransactionCommand[ProducerIdentity | ProducerIdNeeded]):
    """A producer begins, or (with `expected`, KIP-360) goes on after an error. All others with its id are fenced."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions(TransactionCommand[PartitionsAdded]):
    """These partitions are part of the producer's transaction, which begins with the first of them."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


@dataclass(frozen=True, slots=True)
class VerifyPartitions(TransactionCommand[PartitionsVerified]):
    """A partition's leader asks whether they are: before the first batch of a transaction is appended (KIP-890)."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction(TransactionCommand[ProducerIdentity | ProducerIdNeeded]):
    """Commit or abort. The answer is the identity that the producer goes on with."""

    transactional_id: str
    producer: ProducerIdentity
    is_commit: bool
    client_version: int = 0
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class MarkersWritten(TransactionCommand[TransactionCompleted]):
    """Every partition of a prepared transaction has its marker."""

    transactional_id: str
    producer: ProducerIdentity  # as the markers had it


@dataclass(frozen=True, slots=True)
class DescribeTransaction(TransactionCommand[Transaction]):
    transactional_id: str


AnyTransactionCommand: TypeAlias = (
    InitProducer | AddPartitions | VerifyPartitions | EndTransaction | MarkersWritten | DescribeTransaction
)
