"""The records the quorum itself writes to its log and snapshots, in Kafka's formats: the leader, the voters, and
where a snapshot begins and ends (KIP-595, KIP-853, KIP-630).

A control record's key is version int16 and type int16. Its value is one of the messages below, in version 0: the one
that Kafka writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chronik.core.errors import Corrupt
from chronik.core.raft.ready import LeaderChange
from chronik.core.records import payload
from chronik.core.records.batch import CONTROL_BIT
from chronik.core.records.schema import INT16, INT32, INT64, STRING, UINT16, UUID, FieldType, Schema, array_of, field_of
from chronik.core.types import Buffer

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
VOTERS = 6
NO_DIRECTORY = bytes(16)
_KEY = struct.Struct(">hh")
_KEY_VERSION = 0


@dataclass(frozen=True, slots=True)
class VoterId:
    voter_id: int = field_of(INT32)


@dataclass(frozen=True, slots=True)
class LeaderChangeMessage:
    """The first record of an epoch."""

    version: int = field_of(INT16)
    leader_id: int = field_of(INT32)
    voters: tuple[VoterId, ...] = field_of(array_of(Schema(VoterId, flexible=True)))
    granting_voters: tuple[VoterId, ...] = field_of(array_of(Schema(VoterId, flexible=True)))


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str = field_of(STRING)
    host: str = field_of(STRING)
    port: int = field_of(UINT16)


@dataclass(frozen=True, slots=True)
class _Versions:
    least: int = field_of(INT16)
    most: int = field_of(INT16)


_VERSIONS = Schema(_Versions, flexible=True)


def _write_versions(out: bytearray, versions: tuple[int, int], flexible: bool) -> None:
    _VERSIONS.write(out, _Versions(*versions))


def _read_versions(buffer: Buffer, position: int, flexible: bool) -> tuple[tuple[int, int], int]:
    versions, position = _VERSIONS.read(buffer, position)
    return (versions.least, versions.most), position


@dataclass(frozen=True, slots=True)
class Voter:
    voter_id: int = field_of(INT32)
    directory_id: bytes = field_of(UUID)
    endpoints: tuple[Endpoint, ...] = field_of(array_of(Schema(Endpoint, flexible=True)))
    # The least and the greatest kraft.version that it understands.
    kraft_versions: tuple[int, int] = field_of(FieldType(_write_versions, _read_versions))


@dataclass(frozen=True, slots=True)
class VotersRecord:
    """All voters from here on, and where they are reached."""

    version: int = field_of(INT16)
    voters: tuple[Voter, ...] = field_of(array_of(Schema(Voter, flexible=True)))


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """A snapshot begins; the time is that of the last record in it."""

    version: int = field_of(INT16)
    last_time_ms: int = field_of(INT64)


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """It is whole."""

    version: int = field_of(INT16)


ControlRecord = LeaderChangeMessage | VotersRecord | SnapshotHeader | SnapshotFooter
_TYPES: dict[type[ControlRecord], int] = {
    LeaderChangeMessage: LEADER_CHANGE,
    SnapshotHeader: SNAPSHOT_HEADER,
    SnapshotFooter: SNAPSHOT_FOOTER,
    VotersRecord: VOTERS,
}
_SCHEMAS: dict[int, Schema[Any]] = {kind: Schema(record, flexible=True) for record, kind in _TYPES.items()}


def leader_change(change: LeaderChange) -> LeaderChangeMessage:
    voters, granting = (tuple(VoterId(voter) for voter in ids) for ids in (change.voters, change.granting))
    return LeaderChangeMessage(0, change.leader, voters, granting)


def build(records: Sequence[ControlRecord], now_ms: int, *, base_offset: int, leader_epoch: int) -> bytearray:
    """The control batch of these records."""
    pairs = [_pair(record) for record in records]
    return payload.build(pairs, now_ms, base_offset=base_offset, leader_epoch=leader_epoch, attributes=CONTROL_BIT)


def _pair(record: ControlRecord) -> payload.KeyValue:
    kind = _TYPES[type(record)]
    return payload.KeyValue(_KEY.pack(_KEY_VERSION, kind), _SCHEMAS[kind].encode(record))


def read(batch: Buffer) -> Iterator[tuple[int, ControlRecord]]:
    """The records of a control batch with their offsets. Those of other types are left out."""
    for record in payload.walk(batch):
        if record.key is None or record.value is None or len(record.key) < _KEY.size:
            raise Corrupt("control batch", "its record has no key or value")
        _, kind = _KEY.unpack_from(record.key)
        if kind in _SCHEMAS:
            yield record.offset, _SCHEMAS[kind].decode(record.value)
