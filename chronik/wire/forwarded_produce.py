"""Produce (0), versions 3-13, as one node asks another: a part of a client's request, its records sent from where they
lie, in the client's own version; and the answer, read so that it can be put together with others."""

from __future__ import annotations

import struct
from typing import NamedTuple

from chronik.core.errors import RecordError
from chronik.core.records.schema import write_uvarint
from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.leaders import CurrentLeader, NodeEndpoint, write_text
from chronik.wire.names import topic_name
from chronik.wire.produce import (
    ENDPOINTS_TAG,
    FLEXIBLE_FROM,
    LEADER_TAG,
    LEADERS_FROM,
    MESSAGES_FROM,
    TOPIC_IDS_FROM,
    PartitionAnswer,
    ProduceRequest,
)
from chronik.wire.reader import ARRAY_ITEMS_MAX, read_uvarint, skip_tags
from chronik.wire.versions import PRODUCE

CORRELATION_BYTES = 4
START_OFFSETS_FROM = 5

_HEADER = struct.Struct(">hhih")
_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PARTITION = struct.Struct(">ihqq")
_LEADER = struct.Struct(">ii")


class ProduceAnswer(NamedTuple):
    """What another node answered: in the shape in which `produce.encode` takes it."""

    topics: list[tuple[str | bytes, list[PartitionAnswer]]]
    endpoints: list[NodeEndpoint]


def encode(version: int, correlation_id: int, client_id: str, request: ProduceRequest) -> list[Buffer]:
    """The request with its header and without its size, in pieces: records are not copied."""
    flexible = version >= FLEXIBLE_FROM
    name = client_id.encode()
    out = bytearray(_HEADER.pack(PRODUCE, version, correlation_id, len(name)))
    out += name
    if flexible:
        out.append(0)
    _write_text(out, request.transactional_id, flexible)
    out += _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms)
    _write_count(out, len(request.topics), flexible)
    pieces: list[Buffer] = []
    for topic, partitions in request.topics:
        if isinstance(topic, bytes):
            out += topic
        else:
            _write_text(out, topic, flexible)
        _write_count(out, len(partitions), flexible)
        for partition, records in partitions:
            out += _INT32.pack(partition)
            _write_count(out, -1 if records is None else len(records), flexible)
            if records:
                pieces += (out, records)
                out = bytearray()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        pieces.append(out)
    return pieces


def _write_count(out: bytearray, count: int, flexible: bool) -> None:
    """Of an array or of bytes; -1 for null."""
    if flexible:
        write_uvarint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _write_text(out: bytearray, text: str | None, flexible: bool) -> None:
    if flexible:
        write_text(out, text)
    elif text is None:
        out += _INT16.pack(-1)
    else:
        content = text.encode()
        out += _INT16.pack(len(content))
        out += content


def parse(frame: memoryview, version: int) -> ProduceAnswer:
    """The answer in a frame (without its size), header and all. Raises Malformed."""
    try:
        return _Parser(frame, version).answer()
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"produce response: {problem}") from problem


class _Parser:
    """A position that moves over the frame."""

    __slots__ = ("flexible", "frame", "position", "version")

    def __init__(self, frame: memoryview, version: int) -> None:
        self.frame = frame
        self.position = CORRELATION_BYTES
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM

    def answer(self) -> ProduceAnswer:
        self._skip_tags()
        topics: list[tuple[str | bytes, list[PartitionAnswer]]] = []
        for _ in range(self._count()):
            topic = self._topic()
            topics.append((topic, [self._partition() for _ in range(self._count())]))
            self._skip_tags()
        self._number(_INT32)  # throttle time
        endpoints: list[NodeEndpoint] = []
        for tag, field in self._tags():
            if tag == ENDPOINTS_TAG and self.version >= LEADERS_FROM:
                endpoints = field.endpoints()
        return ProduceAnswer(topics, endpoints)

    def endpoints(self) -> list[NodeEndpoint]:
        endpoints: list[NodeEndpoint] = []
        for _ in range(self._count()):
            node_id = self._number(_INT32)
            host = self._text() or ""
            port = self._number(_INT32)
            endpoints.append(NodeEndpoint(node_id, host, port, self._text()))
            self._skip_tags()
        return endpoints

    def _partition(self) -> PartitionAnswer:
        partition, error_code, base_offset, append_time_ms = _PARTITION.unpack_from(self.frame, self.position)
        self.position += _PARTITION.size
        start_offset = self._number(_INT64) if self.version >= START_OFFSETS_FROM else -1
        message: str | None = None
        record_errors: tuple[RecordError, ...] = ()
        if self.version >= MESSAGES_FROM:
            record_errors = tuple(self._record_error() for _ in range(self._count()))
            message = self._text()
        leader: CurrentLeader | None = None
        for tag, field in self._tags():
            if tag == LEADER_TAG and self.version >= LEADERS_FROM:
                leader = CurrentLeader._make(_LEADER.unpack_from(field.frame, 0))
        offsets = base_offset, append_time_ms, start_offset
        return PartitionAnswer(partition, error_code, *offsets, message, leader, record_errors)

    def _record_error(self) -> RecordError:
        index, message = self._number(_INT32), self._text()
        self._skip_tags()
        return RecordError(index, message)

    # --- the parts of messages

    def _topic(self) -> str | bytes:
        start = self.position
        if self.version >= TOPIC_IDS_FROM:
            self.position += 16
            return bytes(self.frame[start : start + 16])
        size = self._size()
        name = topic_name(self.frame, self.position, size)
        self.position += size
        return name

    def _text(self) -> str | None:
        size = self._size()
        if size < 0:
            return None
        end = self.position + size
        if end > len(self.frame):
            raise Malformed(f"a string of {size} bytes where {len(self.frame) - self.position} are left")
        text = bytes(self.frame[self.position : end]).decode()
        self.position = end
        return text

    def _size(self) -> int:
        if not self.flexible:
            return self._number(_INT16)
        size, self.position = read_uvarint(self.frame, self.position)
        return size - 1

    def _count(self) -> int:
        count = self._size() if self.flexible else self._number(_INT32)
        if count < 0 or count > ARRAY_ITEMS_MAX or count > len(self.frame) - self.position:
            raise Malformed(f"an array of {count} elements in {len(self.frame) - self.position} bytes")
        return count

    def _number(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack_from(self.frame, self.position)
        self.position += kind.size
        return int(value)

    def _skip_tags(self) -> None:
        if self.flexible:
            self.position = skip_tags(self.frame, self.position)

    def _tags(self) -> list[tuple[int, _Parser]]:
        """Tagged fields, each to be parsed by itself."""
        if not self.flexible:
            return []
        fields: list[tuple[int, _Parser]] = []
        count, self.position = read_uvarint(self.frame, self.position)
        for _ in range(count):
            tag, self.position = read_uvarint(self.frame, self.position)
            size, self.position = read_uvarint(self.frame, self.position)
            field = _Parser(self.frame[self.position : self.position + size], self.version)
            if len(field.frame) < size:
                raise Malformed("a tagged field reaches past the end")
            field.position = 0
            fields.append((tag, field))
            self.position += size
        return fields
