"""Fetch (1), versions 4-18, read and written directly.

Versions 4-11 are classic, 12-18 flexible; from 7 there are sessions (KIP-227), from 13 topics go by id. The answer is
a list of buffers: records are never copied into one big string.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from chronik.core.ports import Outgoing
from chronik.core.records.schema import write_uvarint
from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.framing import response_head
from chronik.wire.names import topic_name
from chronik.wire.reader import ARRAY_ITEMS_MAX, read_uvarint, skip_tags

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
SESSIONS_FROM = 7
REPLICA_ID_UNTIL = 14

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_PARTITION_4 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")
_ANSWER_4 = struct.Struct(">ihqq")
_ANSWER_5 = struct.Struct(">ihqqq")
_EMPTY = b""


class FetchPartition(NamedTuple):
    """What is asked of one partition. -1 stands for what a version does not carry."""

    topic: str | bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int


class FetchRequest(NamedTuple):
    """`forgotten` holds (topic, partition) that leave the session."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[str | bytes, int]]


class FetchAnswer(NamedTuple):
    """What one partition gives."""

    topic: str | bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    records: Outgoing = _EMPTY


def parse(frame: Buffer, position: int, version: int) -> FetchRequest:
    """Raises Malformed."""
    try:
        return _Parser(frame, position, version).request()
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"fetch request: {problem}") from problem


class _Parser:
    """A position that moves over the frame."""

    __slots__ = ("flexible", "frame", "position", "version")

    def __init__(self, frame: Buffer, position: int, version: int) -> None:
        self.frame = frame
        self.position = position
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM

    def request(self) -> FetchRequest:
        replica_id = -1
        if self.version <= REPLICA_ID_UNTIL:
            replica_id = self._int32()
        max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(self.frame, self.position)
        self.position += _LIMITS.size
        session_id, session_epoch = 0, -1
        if self.version >= SESSIONS_FROM:
            session_id, session_epoch = _SESSION.unpack_from(self.frame, self.position)
            self.position += _SESSION.size
        partitions: list[FetchPartition] = []
        for _ in range(self._count()):
            topic = self._topic()
            for _ in range(self._count()):
                partitions.append(self._partition(topic))
            self._end_of_struct()
        forgotten: list[tuple[str | bytes, int]] = []
        if self.version >= SESSIONS_FROM:
            for _ in range(self._count()):
                topic = self._topic()
                forgotten.extend((topic, self._int32()) for _ in range(self._count()))
                self._end_of_struct()
        return FetchRequest(
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            partitions,
            forgotten,
        )

    def _int32(self) -> int:
        (value,) = _INT32.unpack_from(self.frame, self.position)
        self.position += 4
        return int(value)

    def _count(self) -> int:
        if self.flexible:
            count, self.position = read_uvarint(self.frame, self.position)
            count -= 1
        else:
            count = self._int32()
        if count < 0 or count > ARRAY_ITEMS_MAX or count > len(self.frame) - self.position:
            raise Malformed(f"an array of {count} elements in {len(self.frame) - self.position} bytes")
        return count

    def _topic(self) -> str | bytes:
        if self.version >= TOPIC_IDS_FROM:
            topic_id = bytes(self.frame[self.position : self.position + 16])
            if len(topic_id) < 16:
                raise Malformed("a topic id is cut short")
            self.position += 16
            return topic_id
        if self.flexible:
            size, self.position = read_uvarint(self.frame, self.position)
            size -= 1
        else:
            (size,) = _INT16.unpack_from(self.frame, self.position)
            self.position += 2
        name = topic_name(self.frame, self.position, size)
        self.position += size
        return name

    def _partition(self, topic: str | bytes) -> FetchPartition:
        version, frame, position = self.version, self.frame, self.position
        leader_epoch = -1
        if version >= 12:
            partition, leader_epoch, offset, _, _, max_bytes = _PARTITION_12.unpack_from(frame, position)
            self.position = skip_tags(frame, position + _PARTITION_12.size)
        elif version >= 9:
            partition, leader_epoch, offset, _, max_bytes = _PARTITION_9.unpack_from(frame, position)
            self.position += _PARTITION_9.size
        elif version >= 5:
            partition, offset, _, max_bytes = _PARTITION_5.unpack_from(frame, position)
            self.position += _PARTITION_5.size
        else:
            partition, offset, max_bytes = _PARTITION_4.unpack_from(frame, position)
            self.position += _PARTITION_4.size
        return FetchPartition(topic, partition, offset, max_bytes, leader_epoch)

    def _end_of_struct(self) -> None:
        if self.flexible:
            self.position = skip_tags(self.frame, self.position)


def encode(
    version: int, correlation_id: int, error_code: int, session_id: int, answers: list[FetchAnswer]
) -> list[Outgoing]:
    """The frame as buffers to be written one after the other. Answers of one topic stand together."""
    flexible = version >= FLEXIBLE_FROM
    topics: dict[str | bytes, list[FetchAnswer]] = {}
    for answer in answers:
        topics.setdefault(answer.topic, []).append(answer)
    buffers: list[Outgoing] = []
    out = bytearray(4)
    out += response_head(1, version, correlation_id)
    out += b"\x00\x00\x00\x00"  # throttle time
    if version >= SESSIONS_FROM:
        out += _INT16.pack(error_code)
        out += _INT32.pack(session_id)
    _write_count(out, len(topics), flexible)
    for topic, partitions in topics.items():
        if isinstance(topic, bytes):
            out += topic
        else:
            name = topic.encode()
            if flexible:
                write_uvarint(out, len(name) + 1)
            else:
                out += _INT16.pack(len(name))
            out += name
        _write_count(out, len(partitions), flexible)
        for answer in partitions:
            _write_partition(out, answer, version, flexible)
            if answer.records:
                buffers.append(out)
                buffers.append(answer.records)
                out = bytearray()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        buffers.append(out)
    first = buffers[0]
    assert isinstance(first, bytearray)  # the frame begins with our own head
    _INT32.pack_into(first, 0, sum(map(len, buffers)) - 4)
    return buffers


def _write_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_uvarint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _write_partition(out: bytearray, answer: FetchAnswer, version: int, flexible: bool) -> None:
    """Everything up to the records themselves; their size stands last."""
    _, partition, error_code, high_watermark, last_stable_offset, start_offset, records = answer
    if version >= 5:
        out += _ANSWER_5.pack(partition, error_code, high_watermark, last_stable_offset, start_offset)
    else:
        out += _ANSWER_4.pack(partition, error_code, high_watermark, last_stable_offset)
    if flexible:
        out.append(0)  # aborted transactions: null, there are none
        out += b"\xff\xff\xff\xff"  # preferred read replica: none
        write_uvarint(out, len(records) + 1)
        return
    out += b"\xff\xff\xff\xff"
    if version >= 11:
        out += b"\xff\xff\xff\xff"
    out += _INT32.pack(len(records))
