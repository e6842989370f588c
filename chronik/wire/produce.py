"""Produce (0), versions 3-13, read and written directly: no object per partition beyond a tuple.

Versions 3-8 are classic, 9-13 flexible; 13 names topics by id. The answer has log start from 5, record errors and
a message from 8; from 10 it can name the current leader and where that is reached (KIP-951).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from chronik.core.errors import Code, RecordError
from chronik.core.records.schema import write_uvarint
from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.leaders import CurrentLeader, NodeEndpoint, write_endpoints, write_leader, write_text
from chronik.wire.names import topic_name
from chronik.wire.reader import ARRAY_ITEMS_MAX, read_uvarint, skip_tags

SUPPORTED_FROM = 3
FLEXIBLE_FROM = 9
MESSAGES_FROM = 8
LEADERS_FROM = 10
TOPIC_IDS_FROM = 13

LEADER_TAG = ENDPOINTS_TAG = 0

_INT16 = struct.Struct(">h")
_HEAD = struct.Struct(">ii")  # size, which comes last, and correlation id
_INT32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")


class ProduceRequest(NamedTuple):
    """`topics` holds (topic, [(partition, records)]); the topic is a name, or from version 13 a 16-byte id."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]


class PartitionAnswer(NamedTuple):
    """What became of one partition's batch."""

    partition: int
    error_code: int
    base_offset: int
    append_time_ms: int
    start_offset: int
    message: str | None = None
    leader: CurrentLeader | None = None
    record_errors: Sequence[RecordError] = ()


def parse(frame: memoryview, position: int, version: int) -> ProduceRequest:
    """Raises Malformed."""
    try:
        if version >= FLEXIBLE_FROM:
            return _parse_flexible(frame, position, version)
        return _parse_classic(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"produce request: {problem}") from problem


def _checked_count(count: int, frame: Buffer, position: int) -> int:
    if count < 0 or count > ARRAY_ITEMS_MAX or count > len(frame) - position:
        raise Malformed(f"an array of {count} elements in {len(frame) - position} bytes")
    return count


def _parse_classic(frame: memoryview, position: int) -> ProduceRequest:
    transactional_id: str | None = None
    (size,) = _INT16.unpack_from(frame, position)
    position += 2
    if size >= 0:
        transactional_id = str(frame[position : position + size], "utf-8")
        position += size
    return _parse_classic_topics(frame, position, transactional_id)


def _parse_classic_topics(frame: memoryview, position: int, transactional_id: str | None) -> ProduceRequest:
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    (topic_count,) = _INT32.unpack_from(frame, position + 6)
    position += 10
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(_checked_count(topic_count, frame, position)):
        (size,) = _INT16.unpack_from(frame, position)
        position += 2
        name = topic_name(frame, position, size)
        position += size
        (count,) = _INT32.unpack_from(frame, position)
        position += 4
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(_checked_count(count, frame, position)):
            (partition,) = _INT32.unpack_from(frame, position)
            (size,) = _INT32.unpack_from(frame, position + 4)
            position += 8
            if size < 0:
                partitions.append((partition, None))
                continue
            partitions.append((partition, _records(frame, position, size)))
            position += size
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _records(frame: memoryview, position: int, size: int) -> memoryview:
    if position + size > len(frame):
        raise Malformed(f"records of {size} bytes where {len(frame) - position} are left")
    return frame[position : position + size]


def _parse_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id: str | None = None
    size, position = read_uvarint(frame, position)
    if size > 0:
        transactional_id = str(frame[position : position + size - 1], "utf-8")
        position += size - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topic_count, position = read_uvarint(frame, position + 6)
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(_checked_count(topic_count - 1, frame, position)):
        topic: str | bytes
        if version >= TOPIC_IDS_FROM:
            topic = bytes(frame[position : position + 16])
            position += 16
        else:
            size, position = read_uvarint(frame, position)
            topic = topic_name(frame, position, size - 1)
            position += size - 1
        count, position = read_uvarint(frame, position)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(_checked_count(count - 1, frame, position)):
            (partition,) = _INT32.unpack_from(frame, position)
            size, position = read_uvarint(frame, position + 4)
            if size == 0:
                partitions.append((partition, None))
            else:
                partitions.append((partition, _records(frame, position, size - 1)))
                position += size - 1
            position = skip_tags(frame, position)
        topics.append((topic, partitions))
        position = skip_tags(frame, position)
    skip_tags(frame, position)  # the request must be whole before any of it is appended
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def refuse_old(frame: memoryview, position: int, version: int, correlation_id: int) -> bytes | None:
    """The answer to versions 0-2, which carry message formats that brokers no longer take: UNSUPPORTED_VERSION.

    None for acks=0: such a client reads no answer and would take it for that to its next request.
    """
    try:
        request = _parse_classic_topics(frame, position, None)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"produce request: {problem}") from problem
    if request.acks == 0:
        return None
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    out += _INT32.pack(len(request.topics))
    for topic, partitions in request.topics:
        assert isinstance(topic, str)  # ids come with version 13
        name = topic.encode()
        out += _INT16.pack(len(name)) + name + _INT32.pack(len(partitions))
        for partition, _ in partitions:
            out += _PARTITION.pack(partition, Code.UNSUPPORTED_VERSION, -1, -1)[: 22 if version == 2 else 14]
    if version >= 1:
        out += b"\x00\x00\x00\x00"  # throttle time
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def encode(
    version: int,
    correlation_id: int,
    topics: list[tuple[str | bytes, list[PartitionAnswer]]],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> bytes:
    """The frame of the answer. `endpoints` are those of the leaders that are named in it."""
    flexible = version >= FLEXIBLE_FROM
    out = bytearray(_HEAD.pack(0, correlation_id))  # as `response_head`, without asking the table for each answer
    if flexible:
        out.append(0)
        write_uvarint(out, len(topics) + 1)
    else:
        out += _INT32.pack(len(topics))
    for topic, answers in topics:
        if isinstance(topic, bytes):
            out += topic
        else:
            name = topic.encode()
            if flexible:
                write_uvarint(out, len(name) + 1)
            else:
                out += _INT16.pack(len(name))
            out += name
        if flexible:
            write_uvarint(out, len(answers) + 1)
        else:
            out += _INT32.pack(len(answers))
        for answer in answers:
            _write_partition(out, answer, version, flexible)
        if flexible:
            out.append(0)
    out += _INT32.pack(throttle_ms) if throttle_ms else b"\x00\x00\x00\x00"
    if endpoints and version >= LEADERS_FROM:
        out.append(1)
        write_endpoints(out, ENDPOINTS_TAG, endpoints)
    elif flexible:
        out.append(0)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _write_partition(out: bytearray, answer: PartitionAnswer, version: int, flexible: bool) -> None:
    partition, error_code, base_offset, append_time_ms, start_offset, message, leader, record_errors = answer
    if version >= 5:
        out += _PARTITION_5.pack(partition, error_code, base_offset, append_time_ms, start_offset)
    else:
        out += _PARTITION.pack(partition, error_code, base_offset, append_time_ms)
    if version < MESSAGES_FROM:
        return
    if flexible:
        write_uvarint(out, len(record_errors) + 1)
        for index, problem in record_errors:
            out += _INT32.pack(index)
            write_text(out, problem)
            out.append(0)
        write_text(out, message)
        if leader is None or version < LEADERS_FROM:
            out.append(0)
        else:
            out.append(1)
            write_leader(out, LEADER_TAG, leader)
    else:
        out += _INT32.pack(len(record_errors))
        for index, problem in record_errors:
            out += _INT32.pack(index)
            _write_classic_text(out, problem)
        _write_classic_text(out, message)


def _write_classic_text(out: bytearray, text: str | None) -> None:
    content = None if text is None else text.encode()
    out += _INT16.pack(-1 if content is None else len(content))
    out += content or b""
