"""The records of `__transaction_state`, as Kafka has them: TransactionLogKey 0, TransactionLogValue 0 and 1.

Version 1 is flexible; its tags are written from transaction.version 1 on. The last producer epoch is in neither.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from chronik.core.errors import Corrupt
from chronik.core.machines.machine import LogRecord
from chronik.core.machines.transactions.facts import TransactionFact, TransactionForgotten, TransactionSet
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus
from chronik.core.records.schema import INT8, INT16, INT32, INT64, STRING, Schema, array_of, field_of
from chronik.core.types import NO_PRODUCER_ID, TopicPartition

_INT16 = struct.Struct(">h")
KEY_VERSION = 0


@dataclass(frozen=True, slots=True)
class TransactionKey:
    transactional_id: str = field_of(STRING)


@dataclass(frozen=True, slots=True)
class PartitionsClassic:
    topic: str = field_of(STRING)
    partitions: tuple[int, ...] = field_of(array_of(INT32))


@dataclass(frozen=True, slots=True)
class ValueV0:
    producer_id: int = field_of(INT64)
    producer_epoch: int = field_of(INT16)
    timeout_ms: int = field_of(INT32)
    status: int = field_of(INT8)
    partitions: tuple[PartitionsClassic, ...] | None = field_of(
        array_of(Schema(PartitionsClassic, flexible=False), nullable=True)
    )
    last_update_ms: int = field_of(INT64)
    start_ms: int = field_of(INT64)


@dataclass(frozen=True, slots=True)
class ValueV1:
    producer_id: int = field_of(INT64)
    producer_epoch: int = field_of(INT16)
    timeout_ms: int = field_of(INT32)
    status: int = field_of(INT8)
    partitions: tuple[PartitionsClassic, ...] | None = field_of(
        array_of(Schema(PartitionsClassic, flexible=True), nullable=True)
    )
    last_update_ms: int = field_of(INT64)
    start_ms: int = field_of(INT64)
    previous_producer_id: int = field_of(INT64, tag=0, default=NO_PRODUCER_ID)
    next_producer_id: int = field_of(INT64, tag=1, default=NO_PRODUCER_ID)
    client_version: int = field_of(INT16, tag=2, default=0)


KEY = Schema(TransactionKey, flexible=False)
VALUE_V0, VALUE_V1 = Schema(ValueV0, flexible=False), Schema(ValueV1, flexible=True)


def encode(fact: TransactionFact) -> LogRecord:
    """A durable fact as it stands in the log."""
    match fact:
        case TransactionForgotten(transactional_id):
            return LogRecord(_key(transactional_id), None)
        case TransactionSet(transaction, record_version):
            return LogRecord(_key(transaction.transactional_id), _value(transaction, record_version))
    raise TypeError(f"not a durable fact: {fact!r}")


def _key(transactional_id: str) -> bytes:
    return _INT16.pack(KEY_VERSION) + KEY.encode(TransactionKey(transactional_id))


def _value(transaction: Transaction, version: int) -> bytes:
    common = (
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        int(transaction.status),
        _by_topic(transaction),
        transaction.last_update_ms,
        transaction.start_ms,
    )
    if version == 0:
        return _INT16.pack(0) + VALUE_V0.encode(ValueV0(*common))
    tags = transaction.previous_producer_id, transaction.next_producer_id, transaction.client_version
    return _INT16.pack(1) + VALUE_V1.encode(ValueV1(*common, *tags))


def _by_topic(transaction: Transaction) -> tuple[PartitionsClassic, ...] | None:
    if transaction.status is TransactionStatus.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(PartitionsClassic(topic, tuple(partitions)) for topic, partitions in topics.items())


def decode(record: LogRecord) -> TransactionSet | TransactionForgotten | None:
    """The fact in a record; None when its key is of a kind we do not know. Raises Corrupt."""
    if record.key is None or len(record.key) < _INT16.size:
        raise Corrupt("transaction record", "no key")
    if _INT16.unpack_from(record.key)[0] != KEY_VERSION:
        return None
    transactional_id = KEY.decode(record.key, _INT16.size).transactional_id
    if record.value is None:
        return TransactionForgotten(transactional_id)
    return TransactionSet(_transaction(transactional_id, record.value))


def _transaction(transactional_id: str, content: bytes) -> Transaction:
    if len(content) < _INT16.size:
        raise Corrupt("transaction record", "no version")
    version = _INT16.unpack_from(content)[0]
    if version not in (0, 1):
        raise Corrupt("transaction record", f"a value of version {version}")
    value = VALUE_V0.decode(content, _INT16.size) if version == 0 else VALUE_V1.decode(content, _INT16.size)
    try:
        status = TransactionStatus(value.status)
    except ValueError as problem:
        raise Corrupt("transaction record", f"the state {value.status}") from problem
    topics = value.partitions or ()
    partitions = frozenset(TopicPartition(one.topic, number) for one in topics for number in one.partitions)
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        status=status,
        partitions=partitions,
        start_ms=value.start_ms,
        last_update_ms=value.last_update_ms,
        previous_producer_id=value.previous_producer_id if isinstance(value, ValueV1) else NO_PRODUCER_ID,
        next_producer_id=value.next_producer_id if isinstance(value, ValueV1) else NO_PRODUCER_ID,
        client_version=value.client_version if isinstance(value, ValueV1) else 0,
    )
