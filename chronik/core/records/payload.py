"""The records inside a batch. Nothing on the produce and fetch path looks in here.

`walk` takes a batch apart for machines that replay their log; they wrote it themselves. `unpacked` and `skim` do it
for batches of any producer: for seeking by time, and for the keys of compacted topics. They go in steps, take no
memory for a record, and leave headers alone. `build` makes an uncompressed batch, for machines that write to theirs.
The bytes may come from anyone: lengths are checked before memory is taken, no batch may unpack to more than a limit,
and its header may not claim more records than fit in there.

    a record:  length varint | attributes int8 | timestamp delta varint | offset delta varint
               | key length varint, key | value length varint, value (-1: null)
               | header count varint, then key length, key, value length, value each        varints are zigzag
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

import cramjam
from crc32c import crc32c

from chronik.core.errors import Corrupt
from chronik.core.records.batch import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    RECORD_BYTES_MIN,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    crc_holds,
    read_header,
)
from chronik.core.records.steps import Steps, Work
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Buffer

UNPACKED_BYTES_MAX = 128 * 1024 * 1024
GZIP_DEFAULT_LEVEL = -1
AT_ONCE_BYTES = 256 * 1024  # so much is unpacked in one step; more is work for a thread
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_HEADER_BYTES = 16  # the magic, then two versions
_HEADER = struct.Struct(">qiibIhiqqqhii")
_UINT32 = struct.Struct(">I")
_INT64_END = 2**63
_ONE_BYTE = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))  # the varints of one byte


class Header(NamedTuple):
    """A record header: a name and bytes, or null."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record with its place in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class KeyValue(NamedTuple):
    """What a machine puts in its log."""

    key: bytes | None
    value: bytes | None


class HasKeyAndValue(Protocol):
    """Whatever can be written as a record."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


# --- taking apart


def walk(batches: Buffer, unpacked_bytes_max: int = UNPACKED_BYTES_MAX) -> Iterator[Record]:
    """The records of one or more whole batches. Raises Corrupt where the bytes do not make sense."""
    view = memoryview(batches)
    position = 0
    while position < len(view):
        if len(view) - position < HEADER_BYTES:
            raise Corrupt("records", f"{len(view) - position} bytes are too few for a batch")
        header = read_header(view, position)
        batch = view[position : position + header.size_bytes]
        if header.magic != MAGIC or header.size_bytes != len(batch) or header.size_bytes < HEADER_BYTES:
            raise Corrupt("records", f"no whole batch at {position}")
        if not crc_holds(batch, header.crc):
            raise Corrupt(f"batch at offset {header.base_offset}", "the checksum does not hold")
        yield from _walk_batch(batch, header, unpacked_bytes_max)
        position += header.size_bytes


def _walk_batch(batch: memoryview, header: BatchHeader, unpacked_bytes_max: int) -> Iterator[Record]:
    records = bytes(unpack(batch, header, unpacked_bytes_max))
    where = f"batch at offset {header.base_offset}"
    check_count(header, len(records))
    is_timed_by_log = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    position = 0
    for number in range(header.record_count):
        try:
            record, position = _read_record(records, position, header, is_timed_by_log)
        except (IndexError, ValueError) as problem:
            raise Corrupt(where, f"record {number} of {header.record_count}: {problem}") from problem
        yield record
    if position != len(records):
        raise Corrupt(where, f"{len(records) - position} bytes behind the last record")


def check_count(header: BatchHeader, size: int) -> None:
    """Raise Corrupt where the header claims more records than so many unpacked bytes can be."""
    if header.record_count * RECORD_BYTES_MIN > size:
        where = f"batch at offset {header.base_offset}"
        raise Corrupt(where, f"{header.record_count} records cannot be in {size} bytes")


class TooLarge(Corrupt):
    """The records of a batch take more bytes than they may."""


def unpacked(batch: Buffer, header: BatchHeader) -> Steps[Buffer]:
    """The records of a batch, decompressed; on a thread when they are many bytes. Raises Corrupt."""
    if header.compression == 0:
        return memoryview(batch)[HEADER_BYTES:]
    try:
        return unpack(batch, header, AT_ONCE_BYTES)
    except TooLarge:
        work = Work(partial(unpack, batch, header, UNPACKED_BYTES_MAX))
    yield work
    return work.result()


def unpack(batch: Buffer, header: BatchHeader, unpacked_bytes_max: int = UNPACKED_BYTES_MAX) -> Buffer:
    """The records of a batch, decompressed."""
    packed = bytes(memoryview(batch)[HEADER_BYTES:])
    where = f"batch at offset {header.base_offset}"
    try:
        match header.attributes & COMPRESSION_MASK:
            case 0:
                return packed
            case 1:
                return _unpack_gzip(packed, unpacked_bytes_max, where)
            case 2:
                return _unpack_snappy(packed, unpacked_bytes_max, where)
            case 3:
                return _unpack_into(cramjam.lz4.decompress_into, packed, unpacked_bytes_max, where)
            case 4:
                return _unpack_into(cramjam.zstd.decompress_into, packed, unpacked_bytes_max, where)
            case other:
                raise ValueError(f"compression type {other}")
    except (ValueError, zlib.error, cramjam.DecompressionError) as problem:
        raise Corrupt(where, f"does not decompress: {problem}") from problem


def _too_large(where: str, unpacked_bytes_max: int) -> TooLarge:
    return TooLarge(where, f"does not decompress: more than {unpacked_bytes_max} bytes")


def _unpack_gzip(packed: bytes, unpacked_bytes_max: int, where: str) -> bytes:
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    records = stream.decompress(packed, unpacked_bytes_max)
    if not stream.eof and len(records) < unpacked_bytes_max:
        raise ValueError("cut short")
    if not stream.eof:
        raise _too_large(where, unpacked_bytes_max)
    return records


def _unpack_snappy(packed: bytes, unpacked_bytes_max: int, where: str) -> Buffer:
    """Raw, as librdkafka and the new Java clients write it, or in the blocks of the xerial library."""
    if not packed.startswith(_XERIAL_MAGIC):
        return _unpack_snappy_block(packed, unpacked_bytes_max, where)
    blocks: list[Buffer] = []
    room_bytes, position = unpacked_bytes_max, _XERIAL_HEADER_BYTES
    while position < len(packed):
        if position + 4 > len(packed):
            raise ValueError("a snappy block without its length")
        (size,) = _UINT32.unpack_from(packed, position)
        position += 4
        if size > len(packed) - position:
            raise ValueError(f"a snappy block of {size} bytes where {len(packed) - position} are left")
        block = _unpack_snappy_block(packed[position : position + size], room_bytes, where)
        blocks.append(block)
        room_bytes -= len(block)
        position += size
    return b"".join(blocks)


def _unpack_snappy_block(packed: bytes, unpacked_bytes_max: int, where: str) -> Buffer:
    size = cramjam.snappy.decompress_raw_len(packed)
    if size > unpacked_bytes_max:
        raise _too_large(where, unpacked_bytes_max)
    room = bytearray()
    _grow(room, size)
    cramjam.snappy.decompress_raw_into(packed, room)
    return room


def _unpack_into(
    unpack_into: Callable[[bytes, bytearray], int], packed: bytes, unpacked_bytes_max: int, where: str
) -> memoryview:
    """For formats that do not say their size first: into a buffer that grows, up to the limit."""
    room, room_bytes = bytearray(), min(max(AT_ONCE_BYTES, len(packed) * 4), unpacked_bytes_max)
    while True:
        _grow(room, room_bytes)
        try:
            size = unpack_into(packed, room)
        except cramjam.DecompressionError as problem:
            if "write whole buffer" not in str(problem):
                raise
            if room_bytes == unpacked_bytes_max:
                raise _too_large(where, unpacked_bytes_max) from problem
            room_bytes = min(room_bytes * 4, unpacked_bytes_max)
        else:
            return memoryview(room)[:size]


def _grow(room: bytearray, size: int) -> None:
    """In small pieces: filling all of it with zeros at once would hold up the other threads, the event loop's too."""
    while len(room) < size:
        room += bytes(min(size - len(room), AT_ONCE_BYTES))


class Skimmed(NamedTuple):
    """A record's place in its log, its time, and where its parts are among the unpacked bytes."""

    offset: int
    timestamp: int
    body: int  # what follows is its key, its value and its headers, up to its end
    key: int
    key_bytes: int  # -1: null
    value_bytes: int  # -1: null
    end: int

    def key_in(self, records: Buffer) -> bytes | None:
        return None if self.key_bytes < 0 else bytes(records[self.key : self.key + self.key_bytes])


def skim(records: Buffer, header: BatchHeader) -> Iterator[Skimmed]:
    """Where each record of a batch is in its unpacked bytes. Headers are not looked at: a record may have millions."""
    where = f"batch at offset {header.base_offset}"
    room_bytes = len(records)
    check_count(header, room_bytes)
    base_offset, base_timestamp, one_byte = header.base_offset, header.base_timestamp, _ONE_BYTE
    is_timed_by_log = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    position, last_delta, last_delta_max = 0, -1, header.last_offset_delta
    for number in range(header.record_count):
        try:
            # Most varints are one byte. Looking them up here instead of calling for each halves the time of all this.
            if (byte := records[position]) < 0x80:
                size, position = one_byte[byte], position + 1
            else:
                size, position = read_varint(records, position)
            end = position + size
            if size < 0 or end > room_bytes:
                raise ValueError(f"{size} bytes long where {room_bytes - position} are left")
            if (byte := records[position + 1]) < 0x80:  # after the attributes, which are unused
                timestamp_delta, position = one_byte[byte], position + 2
            else:
                timestamp_delta, position = read_varint(records, position + 1)
            timestamp = base_timestamp + timestamp_delta
            offset_delta, body = read_varint(records, position)
            if not last_delta < offset_delta <= last_delta_max or not -_INT64_END <= timestamp < _INT64_END:
                raise ValueError(f"offset delta {offset_delta} after {last_delta}, time {timestamp}")
            if (byte := records[body]) < 0x80:
                key_bytes, key = one_byte[byte], body + 1
            else:
                key_bytes, key = read_varint(records, body)
            position = key + key_bytes if key_bytes > 0 else key
            if (byte := records[position]) < 0x80:
                value_bytes, position = one_byte[byte], position + 1
            else:
                value_bytes, position = read_varint(records, position)
            if value_bytes > 0:
                position += value_bytes
            if position >= end:
                raise ValueError("its parts are longer than it is")
            if records[position]:
                header_count, position = read_varint(records, position)
                # A header takes two bytes at least, and where there is none, nothing is left.
                if not 0 < header_count * 2 <= end - position:
                    raise ValueError(f"{header_count} headers in {end - position} bytes")
            elif position + 1 != end:
                raise ValueError("its parts do not add up to its length")
        except (IndexError, ValueError) as problem:
            raise Corrupt(where, f"record {number} of {header.record_count}: {problem}") from problem
        if is_timed_by_log:
            timestamp = header.max_timestamp
        yield Skimmed(base_offset + offset_delta, timestamp, body, key, key_bytes, value_bytes, end)
        position, last_delta = end, offset_delta
    if position != room_bytes:
        raise Corrupt(where, f"{room_bytes - position} bytes behind the last record")


def _read_record(records: bytes, position: int, header: BatchHeader, is_timed_by_log: bool) -> tuple[Record, int]:
    size, position = read_varint(records, position)
    end = position + size
    if size < 0 or end > len(records):
        raise ValueError(f"{size} bytes long where {len(records) - position} are left")
    timestamp_delta, position = read_varint(records, position + 1)  # after the attributes, which are unused
    offset_delta, position = read_varint(records, position)
    key, position = _read_bytes(records, position, end)
    value, position = _read_bytes(records, position, end)
    count, position = read_varint(records, position)
    if not 0 <= count <= end - position:
        raise ValueError(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(records, position, end)
        if name is None:
            raise ValueError("a header without a name")
        content, position = _read_bytes(records, position, end)
        headers.append(Header(name.decode("utf-8", "replace"), content))
    if position != end:
        raise ValueError("its parts do not add up to its length")
    timestamp = header.max_timestamp if is_timed_by_log else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), end


def _read_bytes(records: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(records, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise ValueError(f"{size} bytes wanted where {end - position} are left")
    return records[position : position + size], position + size


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A zigzag number of at most ten bytes."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


# --- putting together


def build(
    records: Iterable[HasKeyAndValue],
    now_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytearray:
    """An uncompressed batch of these records. A `Record` brings its own time and headers, and gets a new offset."""
    body = bytearray()
    timestamps: list[int] = []
    for number, record in enumerate(records):
        timestamps.append(record.timestamp if isinstance(record, Record) else now_ms)
        write_record(body, record, timestamps[-1] - timestamps[0], number)
    if not timestamps:
        raise ValueError("a batch without records")
    return assemble(
        body,
        BatchHeader(
            base_offset,
            0,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            len(timestamps) - 1,
            timestamps[0],
            max(timestamps),
            producer_id,
            producer_epoch,
            base_sequence,
            len(timestamps),
        ),
    )


def pack(body: bytes, compression: int, level: int | None = None) -> bytes:
    """The records of a batch, compressed as its attributes say; at the codec's own level unless one is given."""
    match compression:
        case 0:
            return body
        case 1:
            return bytes(cramjam.gzip.compress(body, None if level == GZIP_DEFAULT_LEVEL else level))
        case 2:  # in one xerial block: every client reads that
            block = bytes(cramjam.snappy.compress_raw(body))
            return b"".join((_XERIAL_MAGIC, _XERIAL_VERSIONS, _UINT32.pack(len(block)), block))
        case 3:
            frame = cramjam.lz4.Compressor(
                level=level, block_linked=False
            )  # Java clients read only blocks that stand alone
            frame.compress(body)
            return bytes(frame.finish())
        case 4:
            return bytes(cramjam.zstd.compress(body, level))
        case other:
            raise ValueError(f"compression type {other}")


def assemble(body: Buffer, header: BatchHeader) -> bytearray:
    """A whole batch of this header and these records; length and checksum are filled in."""
    batch = bytearray(HEADER_BYTES)
    batch += body
    _HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_FIELD_END, crc=0))
    _UINT32.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def write_record(out: bytearray, record: HasKeyAndValue, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    headers = record.headers if isinstance(record, Record) else ()
    write_varint(body, len(headers))
    for name, content in headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, content)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)  # -1
    else:
        write_varint(out, len(content))
        out += content


def write_varint(out: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
