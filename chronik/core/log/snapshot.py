"""The producers of a partition as a file, in the bytes of Kafka's `<offset>.snapshot` (version 1).

    version int16, crc-32c uint32 (of all that follows), count int32, then an entry each:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
    coordinator epoch int32, first offset of the open transaction int64 (-1: none)

That is the last batch of each. Behind the entries, where Kafka does not look, stand those before it, in the order of
the entries: a retry of one must be known also when its segment has been deleted since. Of each producer:

    count int8 (-1: not known), then for each batch: first sequence int32, last sequence int32, first offset int64,
    last offset int64, timestamp int64

A snapshot of Kafka's has none of it: then they are not known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c

from chronik.core.log.producers import SEQUENCE_MASK, Producers, ProducerState, WrittenBatch
from chronik.core.types import NO_SEQUENCE, UNKNOWN_OFFSET, Buffer

SUFFIX = ".snapshot"
VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_EARLIER_COUNT = struct.Struct(">b")
_EARLIER = struct.Struct(">iiqqq")
NOT_KNOWN = -1


def offsets_of(names: Iterable[str]) -> tuple[int, ...]:
    """The offsets of the snapshots among these file names, in order."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return tuple(sorted(int(stem) for stem in stems if stem.isdecimal()))


def encode(producers: Producers) -> bytes:
    states = producers.states()
    entries = [_encode_entry(producer) for producer in states]
    body = _COUNT.pack(len(entries)) + b"".join((*entries, *map(_encode_earlier, states)))
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(producer: ProducerState) -> bytes:
    last = producer.batches[-1] if producer.batches else WrittenBatch(0, NO_SEQUENCE, UNKNOWN_OFFSET, UNKNOWN_OFFSET, 0)
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


def _encode_earlier(producer: ProducerState) -> bytes:
    if not producer.is_recalled:
        return _EARLIER_COUNT.pack(NOT_KNOWN)
    earlier = list(producer.batches)[:-1]
    return _EARLIER_COUNT.pack(len(earlier)) + b"".join(_EARLIER.pack(*written) for written in earlier)


def decode(content: Buffer) -> Producers | None:
    """None when these bytes are not a whole snapshot with a checksum that holds."""
    body = memoryview(content)[_HEAD.size :]
    if len(body) < _COUNT.size:
        return None
    version, crc = _HEAD.unpack_from(content)
    (count,) = _COUNT.unpack_from(body)
    entries_end = _COUNT.size + count * _ENTRY.size
    if version != VERSION or crc32c(body) != crc or not _COUNT.size <= entries_end <= len(body):
        return None
    producers = [_decode_entry(body, position) for position in range(_COUNT.size, entries_end, _ENTRY.size)]
    if len(body) > entries_end and not _decode_earlier(producers, body[entries_end:]):
        return None
    return Producers(producers)


def _decode_earlier(producers: list[ProducerState], rest: memoryview) -> bool:
    """Whether these bytes are the earlier batches of just these producers; then they have them."""
    position = 0
    try:
        for producer in producers:
            (count,) = _EARLIER_COUNT.unpack_from(rest, position)
            position += _EARLIER_COUNT.size
            if count == NOT_KNOWN:
                continue
            earlier = [WrittenBatch(*_EARLIER.unpack_from(rest, position + n * _EARLIER.size)) for n in range(count)]
            producer.batches.extendleft(reversed(earlier))
            producer.is_recalled = True
            position += count * _EARLIER.size
    except struct.error:
        return False
    return position == len(rest)


def _decode_entry(body: memoryview, position: int) -> ProducerState:
    entry = _ENTRY.unpack_from(body, position)
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_start_offset = (
        entry
    )
    producer = ProducerState(producer_id, epoch)
    producer.coordinator_epoch = coordinator_epoch
    producer.last_timestamp = timestamp
    producer.transaction_start_offset = transaction_start_offset
    producer.is_recalled = False
    if last_offset >= 0:
        first_sequence = NO_SEQUENCE if last_sequence < 0 else (last_sequence - delta) & SEQUENCE_MASK
        producer.batches.append(
            WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
        )
    return producer
