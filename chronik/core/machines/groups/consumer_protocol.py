"""What consumers of the classic protocol put into their protocol metadata and assignments (Kafka's ConsumerProtocol).

A version, then fields of which each version has a few more than the one before. A version that is not known yet has at
least the fields of the newest one that is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from chronik.core.errors import Corrupt
from chronik.core.records.schema import (
    INT16,
    INT32,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    STRING,
    FieldType,
    Schema,
    array_of,
    field_of,
)

R = TypeVar("R")

# The protocol type of consumers. Connect, schema registries and others bring their own.
CONSUMER_PROTOCOL_TYPE = "consumer"

NEWEST_VERSION = 3


class NamedPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class _TopicPartitions:
    topic: str = field_of(STRING)
    partitions: tuple[int, ...] = field_of(array_of(INT32))


_PARTITIONS = array_of(Schema(_TopicPartitions, flexible=False))
_TOPICS = array_of(STRING)


class Subscription(NamedTuple):
    """What a member wants, and what it has: nothing if its version of the protocol cannot say it."""

    version: int
    topics: tuple[str, ...]
    owned: frozenset[NamedPartition]
    rack_id: str | None


class Assigned(NamedTuple):
    """What a leader gave to a member."""

    partitions: frozenset[NamedPartition]
    user_data: bytes


class _Fields:
    """Reads one field after the other."""

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._position = 0

    def next(self, kind: FieldType) -> Any:
        value, self._position = kind.read(self._buffer, self._position, False)
        return value

    def next_if_any(self, kind: FieldType, default: Any) -> Any:
        """Some clients say a version and leave its last fields out."""
        return default if self._position >= len(self._buffer) else self.next(kind)


def read_subscription(metadata: bytes) -> Subscription:
    """Raises Corrupt."""
    return _read("ConsumerProtocolSubscription", metadata, _subscription)


def read_assignment(assignment: bytes) -> Assigned:
    """Empty bytes are an assignment of nothing. Raises Corrupt."""
    if not assignment:
        return Assigned(frozenset(), b"")
    return _read("ConsumerProtocolAssignment", assignment, _assigned)


def write_assignment(version: int, partitions: frozenset[NamedPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    out = bytearray()
    INT16.write(out, min(version, NEWEST_VERSION), False)
    _PARTITIONS.write(out, [_TopicPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items()], False)
    NULLABLE_BYTES.write(out, None, False)
    return bytes(out)


def _read(what: str, buffer: bytes, reader: Callable[[_Fields], R]) -> R:
    try:
        return reader(_Fields(buffer))
    except (struct.error, IndexError, ValueError) as problem:
        raise Corrupt(what, str(problem)) from problem


def _version(fields: _Fields) -> int:
    version: int = fields.next(INT16)
    if version < 0:
        raise ValueError(f"version {version}")
    return version


def _subscription(fields: _Fields) -> Subscription:
    version = _version(fields)
    topics = fields.next(_TOPICS)
    fields.next_if_any(NULLABLE_BYTES, None)
    owned = fields.next_if_any(_PARTITIONS, ()) if version >= 1 else ()
    if version >= 2:
        fields.next_if_any(INT32, -1)  # the generation in which it got what it owns
    rack_id = fields.next_if_any(NULLABLE_STRING, None) if version >= 3 else None
    return Subscription(version, topics, _flat(owned), rack_id or None)


def _assigned(fields: _Fields) -> Assigned:
    _version(fields)
    partitions = _flat(fields.next(_PARTITIONS))
    return Assigned(partitions, fields.next_if_any(NULLABLE_BYTES, None) or b"")


def _flat(topics: tuple[_TopicPartitions, ...]) -> frozenset[NamedPartition]:
    return frozenset(NamedPartition(topic.topic, number) for topic in topics for number in topic.partitions)


def named(partitions: frozenset[tuple[bytes, int]], names: Mapping[bytes, str]) -> frozenset[NamedPartition]:
    """Partitions by the names of their topics; a topic that is gone has none."""
    return frozenset(NamedPartition(names[id], number) for id, number in partitions if id in names)
