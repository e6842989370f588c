"""The records the quorum itself writes to its log, in Kafka's formats: who leads, and who votes (KIP-595, KIP-853).

A control record's key is version int16 and type int16. Its value is one of the messages below, in version 0: the one
that Kafka writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chronik.core.errors import Corrupt
from chronik.core.raft.ready import LeaderChange
from chronik.core.records import payload
from chronik.core.records.batch import CONTROL_BIT
from chronik.core.records.schema import INT16, INT32, STRING, UINT16, UUID, FieldType, Schema, array_of, field_of
from chronik.core.types import Buffer

LEADER_CHANGE = 2
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


ControlRecord = LeaderChangeMessage | VotersRecord
_LEADER_CHANGE_SCHEMA = Schema(LeaderChangeMessage, flexible=True)
_VOTERS_SCHEMA = Schema(VotersRecord, flexible=True)


def leader_change(change: LeaderChange) -> LeaderChangeMessage:
    voters, granting = (tuple(VoterId(voter) for voter in ids) for ids in (change.voters, change.granting))
    return LeaderChangeMessage(0, change.leader, voters, granting)


def build(records: Sequence[ControlRecord], now_ms: int, *, base_offset: int, leader_epoch: int) -> bytearray:
    """The control batch of these records."""
    pairs = [_pair(record) for record in records]
    return payload.build(pairs, now_ms, base_offset=base_offset, leader_epoch=leader_epoch, attributes=CONTROL_BIT)


def _pair(record: ControlRecord) -> payload.KeyValue:
    match record:
        case LeaderChangeMessage():
            return payload.KeyValue(_KEY.pack(_KEY_VERSION, LEADER_CHANGE), _LEADER_CHANGE_SCHEMA.encode(record))
        case VotersRecord():
            return payload.KeyValue(_KEY.pack(_KEY_VERSION, VOTERS), _VOTERS_SCHEMA.encode(record))


def read(batch: Buffer) -> Iterator[tuple[int, ControlRecord]]:
    """The records of a control batch with their offsets. Those of other types are left out."""
    for record in payload.walk(batch):
        if record.key is None or record.value is None or len(record.key) < _KEY.size:
            raise Corrupt("control batch", "its record has no key or value")
        _, kind = _KEY.unpack_from(record.key)
        if kind == LEADER_CHANGE:
            yield record.offset, _LEADER_CHANGE_SCHEMA.decode(record.value)
        elif kind == VOTERS:
            yield record.offset, _VOTERS_SCHEMA.decode(record.value)
