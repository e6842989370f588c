"""A record batch as bytes: its header, its checksum, and the stamps the log puts on it.

The layout is Kafka's message format v2. The batch is the atom of this house: nothing here looks at single
records. Base offset and leader epoch stand before the checksummed part, so the log stamps them without
touching what the producer sent.

     0  base offset        int64      23  last offset delta  int32      51  producer epoch  int16
     8  length             int32      27  base timestamp     int64      53  base sequence   int32
    12  leader epoch       int32      35  max timestamp      int64      57  record count    int32
    16  magic              int8       43  producer id        int64      61  records
    17  crc-32c            uint32         (of everything from byte 21 on)
    21  attributes         int16
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from chronik.core.errors import Code, Refused
from chronik.core.types import Buffer

HEADER_BYTES = 61
LENGTH_FIELD_END = 12  # 'length' counts what follows it
CRC_START = 21
ATTRIBUTES_AT = 22  # the lower byte, with everything that is known so far
PRODUCER_ID_AT = 43
MAGIC = 2

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NEGATIVE_FROM = 0x80  # the first byte of a negative number

COMPRESSION_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# What a batch can hold, so that a small one cannot claim to be a large one: a record takes seven bytes (length,
# attributes, two deltas, no key, no value, no headers: a byte each), and a packed byte becomes at most so many
# (deflate: 258 from two bits; snappy: 64 from three bytes; lz4: 255 from one; zstd: a block of 128 KiB from four).
# Kafka unpacks each batch to count its records, and has no limit of its own. librdkafka never puts more than a million
# into one (`batch.num.messages`).
RECORD_BYTES_MIN = 7
RECORDS_MAX = 2_000_000
_UNPACKED_BYTES_OF_ONE = (1, 1032, 22, 255, 32 * 1024)

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SIZE = struct.Struct(">qi")
_STAMP = struct.Struct(">qi")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.length + LENGTH_FIELD_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap to 0 after 2^31 - 1 (KIP-98). What is not numbered has none (-1)."""
        return (
            self.base_sequence if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF
        )


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller has made sure that 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def read_producer_id(batch: Buffer) -> int:
    """The producer id; -1 (none) where there are not even so many bytes."""
    return _INT64.unpack_from(batch, PRODUCER_ID_AT)[0] if len(batch) >= HEADER_BYTES else -1


def read_size(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """Base offset and whole size in bytes of the batch at `position`."""
    base_offset, length = _SIZE.unpack_from(buffer, position)
    return base_offset, length + LENGTH_FIELD_END


def crc_holds(batch: Buffer, crc: int) -> bool:
    """Whether the checksum of this whole batch is `crc`."""
    return bool(crc32c(memoryview(batch)[CRC_START:]) == crc)


def accept(records: Buffer) -> BatchHeader:
    """The header of the one batch a producer sent, checked; refused when it is not exactly one sound batch."""
    size = len(records)
    if size < HEADER_BYTES:
        raise Refused(Code.CORRUPT_MESSAGE, f"a record batch has at least {HEADER_BYTES} bytes, this one {size}")
    header = read_header(records)
    if header.magic != MAGIC:
        raise Refused(Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"record format v{header.magic}; v2 is what brokers keep")
    if header.length + LENGTH_FIELD_END != size:
        if HEADER_BYTES <= header.length + LENGTH_FIELD_END < size:
            raise Refused(Code.INVALID_RECORD, "more than one record batch for a partition")
        raise Refused(Code.CORRUPT_MESSAGE, f"batch length {header.length} does not fit {size} bytes")
    if crc32c(memoryview(records)[CRC_START:]) != header.crc:
        raise Refused(Code.CORRUPT_MESSAGE, "the checksum (crc-32c) does not hold")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise Refused(Code.INVALID_RECORD, "record count and offsets of the batch do not agree")
    compression = header.attributes & COMPRESSION_MASK
    if compression >= len(_UNPACKED_BYTES_OF_ONE):
        raise Refused(Code.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {compression}")
    room_bytes = (size - HEADER_BYTES) * _UNPACKED_BYTES_OF_ONE[compression]
    if header.record_count > RECORDS_MAX or header.record_count * RECORD_BYTES_MIN > room_bytes:
        raise Refused(Code.INVALID_RECORD, f"{header.record_count} records in {size} bytes")
    return header


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch in place; neither is covered by the checksum."""
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, 12, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, attributes: int, now_ms: int) -> None:
    """Mark the batch as timed by the log (`message.timestamp.type=LogAppendTime`); the checksum is made anew."""
    _INT16.pack_into(batch, CRC_START, attributes | TIMESTAMP_TYPE_BIT)
    _INT64.pack_into(batch, 35, now_ms)
    _UINT32.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))
