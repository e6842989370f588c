"""A batch as its topic's `compression.type` wants it (in Kafka, a part of `LogValidator`).

Where the topic names a codec other than the batch's, the leader unpacks the records and packs them again before it
appends the batch; a batch that has the codec already stays as it is, whatever its level. The records are not looked at:
their bytes are the same, and so are all fields of the header but codec, length and checksum. So producer id, epoch,
sequence and times stay what the producer said, and a retry is known as such.

A request that waits for this holds nothing but the batch as it came: unpacking and packing are one piece of work.
"""

from __future__ import annotations

from functools import partial

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.log.admission import admit, check_records
from chronik.core.records.batch import COMPRESSION_MASK, HEADER_BYTES, BatchHeader
from chronik.core.records.payload import TooLarge, assemble, check_count, pack, unpack
from chronik.core.records.steps import Steps, Work
from chronik.core.types import Buffer

# What is packed at once. With most levels that takes well under a millisecond, with zstd's high ones ten times as long.
AT_ONCE_BYTES = 16 * 1024
AT_ONCE_BYTES_SLOW = 1024
SLOW_ZSTD_FROM = 10
_ZSTD = 4


def ready_to_append(
    batch: memoryview | bytearray, header: BatchHeader, config: TopicConfig, now_ms: int, *, checks_records: bool
) -> Steps[memoryview | bytearray]:
    """What the log is to keep of a producer's batch: itself, or the same records compressed as the topic wants them;
    with `checks_records`, looked through before. Raises Refused."""
    if checks_records:
        yield from check_records(batch, header, config, now_ms)
    target = config.target_compression
    if target is None or target == header.compression or header.is_control:
        return batch
    admit(header, config, now_ms)  # what is refused anyway is not worth the work
    try:
        return (yield from _recompressed(batch, header, target, config.level_of(target)))
    except Corrupt as problem:
        raise Refused(Code.INVALID_RECORD, problem.what) from problem


def _recompressed(batch: Buffer, header: BatchHeader, target: int, level: int | None) -> Steps[bytearray]:
    is_slow = target == _ZSTD and level is not None and level >= SLOW_ZSTD_FROM
    at_once_bytes = AT_ONCE_BYTES_SLOW if is_slow else AT_ONCE_BYTES
    if header.size_bytes - HEADER_BYTES <= at_once_bytes:
        try:
            return _packed(unpack(batch, header, at_once_bytes), header, target, level)
        except TooLarge:
            pass
    work = Work(partial(_recompress, batch, header, target, level))
    yield work
    return work.result()


def _recompress(batch: Buffer, header: BatchHeader, target: int, level: int | None) -> bytearray:
    return _packed(unpack(batch, header), header, target, level)


def _packed(records: Buffer, header: BatchHeader, target: int, level: int | None) -> bytearray:
    check_count(header, len(records))
    attributes = header.attributes & ~COMPRESSION_MASK | target
    return assemble(pack(bytes(records), target, level), header._replace(attributes=attributes))
