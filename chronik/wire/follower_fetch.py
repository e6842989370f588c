"""Fetch (1) as a follower asks it: version 18, topics by id, and records left where they lie in the frame."""

from __future__ import annotations

import struct
from typing import NamedTuple

from chronik.core.errors import Code
from chronik.core.records.schema import write_uvarint
from chronik.wire.errors import Malformed
from chronik.wire.fetch import (
    CLUSTER_ID_TAG,
    DIVERGING_TAG,
    HORIZON,
    HORIZON_TAG,
    LEADER_TAG,
    NOT_SENT,
    REPLICA_STATE_TAG,
    SNAPSHOT_TAG,
    WATERMARK,
    WATERMARK_TAG,
    EpochEnd,
    FetchPartition,
    FetchRequest,
)
from chronik.wire.leaders import CurrentLeader, write_text
from chronik.wire.reader import ARRAY_ITEMS_MAX, read_uvarint, skip_tags
from chronik.wire.versions import FETCH

VERSION = 18  # the answers of 13 to 18 are alike

_HEADER = struct.Struct(">hhih")
_LIMITS = struct.Struct(">iiibii")
_PARTITION = struct.Struct(">iiqiqi")
_INT32 = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">iqb")
_ANSWER_HEAD = struct.Struct(">ihi")
_ANSWER = struct.Struct(">ihqqq")
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")
_SNAPSHOT = struct.Struct(">qi")

CORRELATION_BYTES = 4
ABORTED_BYTES = 16  # an aborted transaction, without its tags
_NOTHING = memoryview(b"")


class FetchedPartition(NamedTuple):
    """What a leader gives of one partition. `records` is a view into the answer's frame."""

    topic_id: bytes
    partition: int
    error: Code
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging: EpochEnd | None
    leader: CurrentLeader | None
    snapshot: EpochEnd | None
    records: memoryview
    tombstone_horizon: int = 0  # below it, tombstones may be missing in the leader's log


class FollowerFetched(NamedTuple):
    """A leader's whole answer."""

    error: Code
    session_id: int
    partitions: list[FetchedPartition]


def encode(correlation_id: int, client_id: str, request: FetchRequest) -> bytes:
    """The request with its header and without its size. Topics are ids; those of one topic need not stand together."""
    name = client_id.encode()
    out = bytearray(_HEADER.pack(FETCH, VERSION, correlation_id, len(name)))
    out += name
    out.append(0)
    out += _LIMITS.pack(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )
    topics: dict[str | bytes, list[FetchPartition]] = {}
    for asked in request.partitions:
        topics.setdefault(asked.topic, []).append(asked)
    write_uvarint(out, len(topics) + 1)
    for topic, partitions in topics.items():
        _write_topic(out, topic, len(partitions))
        for _, partition, fetch_offset, max_bytes, leader_epoch, last_epoch, start_offset, watermark in partitions:
            out += _PARTITION.pack(partition, leader_epoch, fetch_offset, last_epoch, start_offset, max_bytes)
            if watermark == NOT_SENT:
                out.append(0)
            else:
                out += bytes((1, WATERMARK_TAG, WATERMARK.size))
                out += WATERMARK.pack(watermark)
        out.append(0)
    forgotten: dict[str | bytes, list[int]] = {}
    for topic, partition in request.forgotten:
        forgotten.setdefault(topic, []).append(partition)
    write_uvarint(out, len(forgotten) + 1)
    for topic, numbers in forgotten.items():
        _write_topic(out, topic, len(numbers))
        for number in numbers:
            out += _INT32.pack(number)
        out.append(0)
    write_text(out, request.rack_id)
    _write_tags(out, request)
    return bytes(out)


def _write_topic(out: bytearray, topic: str | bytes, count: int) -> None:
    if not isinstance(topic, bytes):
        raise TypeError(f"topic {topic!r} is to be named by its id")
    out += topic
    write_uvarint(out, count + 1)


def _write_tags(out: bytearray, request: FetchRequest) -> None:
    if request.cluster_id is None:
        out.append(1)
    else:
        out.append(2)
        body = bytearray()
        write_text(body, request.cluster_id)
        out.append(CLUSTER_ID_TAG)
        write_uvarint(out, len(body))
        out += body
    out += bytes((REPLICA_STATE_TAG, _REPLICA_STATE.size))
    out += _REPLICA_STATE.pack(request.replica_id, request.replica_epoch, 0)


def parse(frame: memoryview) -> FollowerFetched:
    """The answer in a frame (without its size), header and all. Raises Malformed."""
    try:
        return _parse(frame, skip_tags(frame, CORRELATION_BYTES))
    except (struct.error, IndexError, ValueError) as problem:
        raise Malformed(f"fetch response: {problem}") from problem


def _parse(frame: memoryview, position: int) -> FollowerFetched:
    _, error_code, session_id = _ANSWER_HEAD.unpack_from(frame, position)
    count, position = _read_count(frame, position + _ANSWER_HEAD.size)
    partitions: list[FetchedPartition] = []
    for _ in range(count):
        topic_id = bytes(frame[position : position + 16])
        part_count, position = _read_count(frame, position + 16)
        for _ in range(part_count):
            partition, position = _read_partition(frame, position, topic_id)
            partitions.append(partition)
        position = skip_tags(frame, position)
    skip_tags(frame, position)
    return FollowerFetched(Code(error_code), session_id, partitions)


def _read_count(frame: memoryview, position: int) -> tuple[int, int]:
    count, position = read_uvarint(frame, position)
    count -= 1
    if count < 0 or count > ARRAY_ITEMS_MAX or count > len(frame) - position:
        raise Malformed(f"an array of {count} elements in {len(frame) - position} bytes")
    return count, position


def _read_partition(frame: memoryview, position: int, topic_id: bytes) -> tuple[FetchedPartition, int]:
    partition, error_code, high_watermark, last_stable_offset, start_offset = _ANSWER.unpack_from(frame, position)
    position = _skip_aborted(frame, position + _ANSWER.size)
    size, position = read_uvarint(frame, position + _INT32.size)  # behind the preferred read replica
    records = _NOTHING
    if size > 1:
        end = position + size - 1
        if end > len(frame):
            raise Malformed(f"records of {size - 1} bytes where {len(frame) - position} are left")
        records = frame[position:end]
        position = end
    diverging: EpochEnd | None = None
    leader: CurrentLeader | None = None
    snapshot: EpochEnd | None = None
    tombstone_horizon = 0
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        field = frame[position : position + size]
        if len(field) < size:
            raise Malformed("a tagged field reaches past the end")
        if tag == DIVERGING_TAG:
            diverging = EpochEnd._make(_EPOCH_END.unpack_from(field))
        elif tag == LEADER_TAG:
            leader = CurrentLeader._make(_LEADER.unpack_from(field))
        elif tag == SNAPSHOT_TAG:
            end_offset, epoch = _SNAPSHOT.unpack_from(field)
            snapshot = EpochEnd(epoch, end_offset)
        elif tag == HORIZON_TAG:
            (tombstone_horizon,) = HORIZON.unpack_from(field)
        position += size
    fetched = FetchedPartition(
        topic_id,
        partition,
        Code(error_code),
        high_watermark,
        last_stable_offset,
        start_offset,
        diverging,
        leader,
        snapshot,
        records,
        tombstone_horizon,
    )
    return fetched, position


def _skip_aborted(frame: memoryview, position: int) -> int:
    """Past the aborted transactions, which a follower finds out itself."""
    if not frame[position]:
        return position + 1
    count, position = _read_count(frame, position)
    for _ in range(count):
        position = skip_tags(frame, position + ABORTED_BYTES)
    return position
