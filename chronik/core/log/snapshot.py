"""The producers of a partition as a file, in the bytes of Kafka's `<offset>.snapshot` (version 1).

    version int16, crc-32c uint32 (of all that follows), count int32, then an entry each:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
    coordinator epoch int32, first offset of the open transaction int64 (-1: none)

Of a producer's batches only the last one is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c

from chronik.core.log.producers import SEQUENCE_MASK, Producer, Producers, Written
from chronik.core.types import NO_SEQUENCE, UNKNOWN_OFFSET, Buffer

SUFFIX = ".snapshot"
VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def offsets_of(names: Iterable[str]) -> tuple[int, ...]:
    """The offsets of the snapshots among these file names, in order."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return tuple(sorted(int(stem) for stem in stems if stem.isdecimal()))


def encode(producers: Producers) -> bytes:
    entries = [_encode_entry(producer) for producer in producers.states()]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else Written(0, NO_SEQUENCE, UNKNOWN_OFFSET, UNKNOWN_OFFSET, 0)
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.last_offset - last.base_offset,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
    )


def decode(content: Buffer) -> Producers | None:
    """None when these bytes are not a whole snapshot with a checksum that holds."""
    body = memoryview(content)[_HEAD.size :]
    if len(body) < _COUNT.size:
        return None
    version, crc = _HEAD.unpack_from(content)
    (count,) = _COUNT.unpack_from(body)
    if version != VERSION or crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    return Producers(_decode_entry(body, _COUNT.size + number * _ENTRY.size) for number in range(count))


def _decode_entry(body: memoryview, position: int) -> Producer:
    entry = _ENTRY.unpack_from(body, position)
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_start_offset = (
        entry
    )
    producer = Producer(producer_id, epoch)
    producer.coordinator_epoch = coordinator_epoch
    producer.last_timestamp = timestamp
    producer.transaction_start_offset = transaction_start_offset
    producer.is_recalled = False
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & SEQUENCE_MASK
        producer.batches.append(Written(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
    return producer
