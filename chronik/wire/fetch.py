"""Fetch (1), versions 4-18, read and written directly.

Versions 4-11 are classic, 12-18 flexible; from 7 there are sessions (KIP-227), from 13 topics go by id. A follower says
who it is, up to 14 in a field and from 15 in a tagged one with its broker epoch (KIP-903); from 12 it also says which
epoch its last record is of, and hears where its log diverges (KIP-595), and from 18 it can say which watermark it
knows (KIP-1166). The answer is a list of buffers: records are
never copied into one big string.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from chronik.core.ports import Outgoing
from chronik.core.records.schema import write_uvarint
from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.framing import response_head
from chronik.wire.leaders import CurrentLeader, NodeEndpoint, write_endpoints, write_leader
from chronik.wire.names import topic_name
from chronik.wire.reader import ARRAY_ITEMS_MAX, read_uvarint, skip_tags

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
SESSIONS_FROM = 7
RACKS_FROM = 11
REPLICA_ID_UNTIL = 14
ENDPOINTS_FROM = 16
WATERMARKS_FROM = 18

CLUSTER_ID_TAG, REPLICA_STATE_TAG = 0, 1
WATERMARK_TAG = 1  # of a partition that is asked for
NOT_SENT = 2**63 - 1
DIVERGING_TAG, LEADER_TAG, SNAPSHOT_TAG = 0, 1, 2
HORIZON_TAG = 100  # of our own, between nodes: Kafka has nothing of the kind
ENDPOINTS_TAG = 0

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
_ABORTED = struct.Struct(">qq")
_REPLICA_STATE = struct.Struct(">iq")
_DIVERGING = struct.Struct(">iqb")
_SNAPSHOT = struct.Struct(">qib")
HORIZON = struct.Struct(">q")
WATERMARK = struct.Struct(">q")
EMPTY_TEXT = 1  # the size of a compact string of no characters
_EMPTY = b""
_NONE = b"\xff\xff\xff\xff"


class FetchPartition(NamedTuple):
    """What is asked of one partition. -1 stands for what a version does not carry."""

    topic: str | bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int = -1  # of a follower: the epoch of the last record it has
    log_start_offset: int = -1  # of a follower's own log
    high_watermark: int = NOT_SENT  # as a follower knows it (KIP-1166)


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
    rack_id: str = ""
    cluster_id: str | None = None
    replica_epoch: int = -1  # the broker epoch of a follower


class EpochEnd(NamedTuple):
    """An epoch, and the offset after its last record."""

    epoch: int
    end_offset: int


class FetchAnswer(NamedTuple):
    """What one partition gives. The last four are sent from version 12, where they are of use."""

    topic: str | bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    records: Outgoing = _EMPTY
    preferred_read_replica: int = -1
    diverging: EpochEnd | None = None
    leader: CurrentLeader | None = None
    snapshot: EpochEnd | None = None
    tombstone_horizon: int = 0  # below it, tombstones may be missing; sent to followers, and only where there is one
    # Producer id and first offset of what a read_committed consumer leaves out; None for those that read everything.
    aborted: Sequence[tuple[int, int]] | None = None


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
        rack_id, cluster_id, replica_epoch = "", None, -1
        if self.flexible and self.frame[self.position] == EMPTY_TEXT:
            self.position += 1
        elif self.version >= RACKS_FROM:
            rack_id = self._text() or ""
        if self.flexible and self.frame[self.position]:
            cluster_id, state = self._tags()
            replica_id, replica_epoch = state or (replica_id, replica_epoch)
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
            rack_id,
            cluster_id,
            replica_epoch,
        )

    def _tags(self) -> tuple[str | None, tuple[int, int] | None]:
        """The cluster id, and a follower's id and epoch."""
        cluster_id: str | None = None
        state: tuple[int, int] | None = None
        count, self.position = read_uvarint(self.frame, self.position)
        for _ in range(count):
            tag, self.position = read_uvarint(self.frame, self.position)
            size, self.position = read_uvarint(self.frame, self.position)
            end = self.position + size
            if end > len(self.frame):
                raise Malformed("a tagged field reaches past the end")
            if tag == CLUSTER_ID_TAG:
                cluster_id = self._text()
            elif tag == REPLICA_STATE_TAG and self.version > REPLICA_ID_UNTIL:
                state = _REPLICA_STATE.unpack_from(self.frame, self.position)
            self.position = end
        return cluster_id, state

    def _text(self) -> str | None:
        """A string that may be null."""
        size = self._size()
        if size <= 0:
            return None if size < 0 else ""
        end = self.position + size
        if end > len(self.frame):
            raise Malformed(f"a string of {size} bytes where {len(self.frame) - self.position} are left")
        text = bytes(self.frame[self.position : end]).decode()
        self.position = end
        return text

    def _size(self) -> int:
        """Of a string; negative for null."""
        if self.flexible:
            size, self.position = read_uvarint(self.frame, self.position)
            return size - 1
        (size,) = _INT16.unpack_from(self.frame, self.position)
        self.position += 2
        return int(size)

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
        size = self._size()
        name = topic_name(self.frame, self.position, size)
        self.position += size
        return name

    def _partition(self, topic: str | bytes) -> FetchPartition:
        version, frame, position = self.version, self.frame, self.position
        leader_epoch = last_fetched_epoch = start_offset = -1
        high_watermark = NOT_SENT
        if version >= 12:
            partition, leader_epoch, offset, last_fetched_epoch, start_offset, max_bytes = _PARTITION_12.unpack_from(
                frame, position
            )
            self.position = position + _PARTITION_12.size
            if version >= WATERMARKS_FROM and frame[self.position]:
                high_watermark = self._watermark()
            else:
                self.position = skip_tags(frame, self.position)
        elif version >= 9:
            partition, leader_epoch, offset, start_offset, max_bytes = _PARTITION_9.unpack_from(frame, position)
            self.position += _PARTITION_9.size
        elif version >= 5:
            partition, offset, start_offset, max_bytes = _PARTITION_5.unpack_from(frame, position)
            self.position += _PARTITION_5.size
        else:
            partition, offset, max_bytes = _PARTITION_4.unpack_from(frame, position)
            self.position += _PARTITION_4.size
        epochs = leader_epoch, last_fetched_epoch
        return FetchPartition(topic, partition, offset, max_bytes, *epochs, start_offset, high_watermark)

    def _watermark(self) -> int:
        """The one tagged field of a partition that is looked at."""
        high_watermark = NOT_SENT
        count, self.position = read_uvarint(self.frame, self.position)
        for _ in range(count):
            tag, self.position = read_uvarint(self.frame, self.position)
            size, self.position = read_uvarint(self.frame, self.position)
            end = self.position + size
            if end > len(self.frame):
                raise Malformed("a tagged field reaches past the end")
            if tag == WATERMARK_TAG:
                (high_watermark,) = WATERMARK.unpack_from(self.frame, self.position)
            self.position = end
        return int(high_watermark)

    def _end_of_struct(self) -> None:
        if self.flexible:
            self.position = skip_tags(self.frame, self.position)


def encode(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    answers: list[FetchAnswer],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> list[Outgoing]:
    """The frame as buffers to be written one after the other. Answers of one topic stand together. `endpoints` are
    those of the leaders that are named in it."""
    flexible = version >= FLEXIBLE_FROM
    topics: dict[str | bytes, list[FetchAnswer]] = {}
    for answer in answers:
        topics.setdefault(answer.topic, []).append(answer)
    buffers: list[Outgoing] = []
    out = bytearray(4)
    out += response_head(1, version, correlation_id)
    out += _INT32.pack(throttle_ms)
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
            has_tags = _write_partition(out, answer, version, flexible)
            if answer.records:
                buffers.append(out)
                buffers.append(answer.records)
                out = bytearray()
            if has_tags:
                _write_tags(out, answer)
            elif flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if endpoints and version >= ENDPOINTS_FROM:
        out.append(1)
        write_endpoints(out, ENDPOINTS_TAG, endpoints)
    elif flexible:
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


def _write_partition(out: bytearray, answer: FetchAnswer, version: int, flexible: bool) -> bool:
    """Everything up to the records themselves; their size stands last. Returns whether tagged fields follow them."""
    (
        _,
        partition,
        error_code,
        high_watermark,
        last_stable_offset,
        start_offset,
        records,
        preferred,
        diverging,
        leader,
        snapshot,
        tombstone_horizon,
        aborted,
    ) = answer
    if version >= 5:
        out += _ANSWER_5.pack(partition, error_code, high_watermark, last_stable_offset, start_offset)
    else:
        out += _ANSWER_4.pack(partition, error_code, high_watermark, last_stable_offset)
    if flexible:
        if aborted is None:
            out.append(0)
        else:
            write_uvarint(out, len(aborted) + 1)
            for producer_id, first_offset in aborted:
                out += _ABORTED.pack(producer_id, first_offset)
                out.append(0)
        out += _NONE if preferred < 0 else _INT32.pack(preferred)
        write_uvarint(out, len(records) + 1)
        return bool(diverging or leader or snapshot or tombstone_horizon)
    if aborted is None:
        out += _NONE
    else:
        out += _INT32.pack(len(aborted))
        for producer_id, first_offset in aborted:
            out += _ABORTED.pack(producer_id, first_offset)
    if version >= RACKS_FROM:
        out += _INT32.pack(preferred)
    out += _INT32.pack(len(records))
    return False


def _write_tags(out: bytearray, answer: FetchAnswer) -> None:
    """What only followers and lost consumers are sent."""
    diverging, leader, snapshot = answer.diverging, answer.leader, answer.snapshot
    horizon = answer.tombstone_horizon
    out.append((diverging is not None) + (leader is not None) + (snapshot is not None) + (horizon > 0))
    if diverging is not None:
        out += bytes((DIVERGING_TAG, _DIVERGING.size)) + _DIVERGING.pack(diverging.epoch, diverging.end_offset, 0)
    if leader is not None:
        write_leader(out, LEADER_TAG, leader)
    if snapshot is not None:
        out += bytes((SNAPSHOT_TAG, _SNAPSHOT.size)) + _SNAPSHOT.pack(snapshot.end_offset, snapshot.epoch, 0)
    if horizon > 0:
        out += bytes((HORIZON_TAG, HORIZON.size)) + HORIZON.pack(horizon)
