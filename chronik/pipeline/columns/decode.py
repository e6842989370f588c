"""Record batches, as a leader sends them, to Arrow columns.

Headers and records are walked by compiled loops (`kernels`); Python sees a batch at a time, to verify its checksum and
to decompress it. What is not for readers goes here: transaction markers, and for `read_committed` what was aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from chronik.core.errors import Corrupt
from chronik.core.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    read_header,
)
from chronik.core.records.control import read_marker
from chronik.core.records.payload import unpack
from chronik.core.types import Buffer
from chronik.pipeline.columns import kernels
from chronik.pipeline.columns.kernels import BASE_OFFSET, COUNT, LAST_DELTA, POSITION, SIZE

# One Arrow batch holds about this much. Large enough that its fixed cost vanishes, small enough to stay in the caches
# of Spark's side, and far below the 2 GB that Arrow's 32-bit positions can say.
ARROW_BYTES = 16 * 1024 * 1024
UNPACKED_BYTES_MAX = 1024 * 1024 * 1024
_RECORD_BYTES_MIN = 7  # length, attributes, two deltas, two lengths and the header count, a byte each

_HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
HEADERS_TYPE = pa.list_(pa.struct(_HEADER_FIELDS))
_COLUMNS = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
]
SCHEMA = pa.schema(_COLUMNS)
SCHEMA_WITH_HEADERS = pa.schema([*_COLUMNS, ("headers", HEADERS_TYPE)])


class Aborted(NamedTuple):
    """A transaction that came to nothing: whose, and where it began in this partition."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True)
class AnswerBatches:
    """Whole batches in a leader's answer, and their headers: one row each, columns as in `kernels`."""

    records: Buffer
    headers: Any

    @property
    def next_offset(self) -> int:
        """Behind the last of them; there must be one."""
        last = self.headers[-1]
        return int(last[BASE_OFFSET] + last[LAST_DELTA]) + 1

    def bytes_of(self, number: int) -> memoryview:
        position, size = int(self.headers[number, POSITION]), int(self.headers[number, SIZE])
        return memoryview(self.records)[position : position + size]

    def __len__(self) -> int:
        return len(self.headers)


@dataclass(frozen=True)
class WantedRows:
    """Which records of which partition, and whether with their headers."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    has_headers: bool = False

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA_WITH_HEADERS if self.has_headers else SCHEMA


def read_batches(records: Buffer) -> AnswerBatches:
    """The whole batches; what is cut off at the end is left out, as a leader may cut there. Raises Corrupt."""
    buffer = np.frombuffer(records, np.uint8)
    count, bad_at = kernels.read_headers(buffer, np.empty((0, kernels.HEADER_COLUMNS), np.int64))
    if bad_at >= 0:
        raise Corrupt("fetched records", f"no batch begins at byte {bad_at}")
    headers = np.empty((count, kernels.HEADER_COLUMNS), np.int64)
    kernels.read_headers(buffer, headers)
    for row in headers[headers[:, kernels.MAGIC] != MAGIC]:
        raise Corrupt(
            f"batch at offset {row[BASE_OFFSET]}", f"its format is v{row[kernels.MAGIC]}; only v2 can be read"
        )
    impossible = (headers[:, COUNT] < 0) | (headers[:, LAST_DELTA] < 0) | (headers[:, BASE_OFFSET] < 0)
    for row in headers[impossible]:
        raise Corrupt(f"batch at offset {row[BASE_OFFSET]}", "its header has a negative count or offset")
    return AnswerBatches(records, headers)


def decode(batches: AnswerBatches, wanted: WantedRows, aborted: Sequence[Aborted] = ()) -> Iterator[pa.RecordBatch]:
    """The wanted records as Arrow batches, in order. Raises Corrupt where the bytes do not make sense."""
    kept = [number for number in _committed(batches, aborted) if _overlaps(batches.headers[number], wanted)]
    group: list[int] = []
    pieces: list[Buffer] = []
    group_bytes = 0
    for number in kept:
        piece = checked_records(batches, number)
        group.append(number)
        pieces.append(piece)
        group_bytes += len(piece)
        if group_bytes >= ARROW_BYTES:
            yield from _decode_group(batches, group, pieces, wanted)
            group, pieces, group_bytes = [], [], 0
    if group:
        yield from _decode_group(batches, group, pieces, wanted)


def _overlaps(header: Any, wanted: WantedRows) -> bool:
    base_offset = int(header[BASE_OFFSET])
    return base_offset < wanted.end_offset and base_offset + int(header[LAST_DELTA]) >= wanted.start_offset


def _committed(batches: AnswerBatches, aborted: Sequence[Aborted]) -> list[int]:
    """The batches that hold records for a reader. The rule is the Java consumer's: a transaction is on the list from
    its first offset, until the marker that ends it."""
    attributes = batches.headers[:, kernels.ATTRIBUTES]
    if not aborted:
        return [int(number) for number in np.flatnonzero((attributes & CONTROL_BIT) == 0)]
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    open_producers: set[int] = set()
    kept: list[int] = []
    for number in range(len(batches)):
        header = batches.headers[number]
        producer_id = int(header[kernels.PRODUCER])
        while waiting and waiting[-1].first_offset <= header[BASE_OFFSET] + header[LAST_DELTA]:
            open_producers.add(waiting.pop().producer_id)
        if attributes[number] & CONTROL_BIT:
            marker = read_marker(batches.bytes_of(number))
            if marker is not None and not marker.is_commit:
                open_producers.discard(producer_id)
        elif not (attributes[number] & TRANSACTIONAL_BIT and producer_id in open_producers):
            kept.append(number)
    return kept


def checked_batch(batches: AnswerBatches, number: int) -> memoryview:
    """The bytes of a batch whose checksum holds. Raises Corrupt."""
    header = batches.headers[number]
    batch = batches.bytes_of(number)
    if crc32c(batch[CRC_START:]) != header[kernels.CRC]:
        raise Corrupt(f"batch at offset {header[BASE_OFFSET]}", "the checksum does not hold")
    return batch


def checked_records(batches: AnswerBatches, number: int) -> Buffer:
    """The records of a batch: decompressed, and not before its checksum has been found to hold."""
    header = batches.headers[number]
    batch = checked_batch(batches, number)
    records: Buffer = batch[HEADER_BYTES:]
    if header[kernels.ATTRIBUTES] & COMPRESSION_MASK:
        records = unpack(batch, read_header(batch), UNPACKED_BYTES_MAX)
    if int(header[COUNT]) * _RECORD_BYTES_MIN > len(records):
        raise Corrupt(f"batch at offset {header[BASE_OFFSET]}", f"{header[COUNT]} records in {len(records)} bytes")
    return records


def record_offsets(batches: AnswerBatches, number: int) -> Any:
    """The offsets of the records of one batch. Raises Corrupt."""
    header = batches.headers[[number]]
    records = checked_records(batches, number)
    rows: Any = np.empty((int(header[0, COUNT]), kernels.RECORD_COLUMNS), np.int64)
    ends = np.array([len(records)], np.int64)
    first, last = header[0, BASE_OFFSET], header[0, BASE_OFFSET] + header[0, LAST_DELTA]
    count, _, problem, _ = kernels.index_records(
        np.frombuffer(records, np.uint8), ends - ends, ends, header, first, last + 1, False, rows
    )
    if problem != kernels.FINE:
        raise Corrupt(f"batch at offset {first}", kernels.PROBLEMS[problem])
    return np.ascontiguousarray(rows[:count, kernels.OFFSET])


def _decode_group(
    batches: AnswerBatches, group: Sequence[int], pieces: Sequence[Buffer], wanted: WantedRows
) -> Iterator[pa.RecordBatch]:
    headers = batches.headers[list(group)]
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    if (headers[:, kernels.ATTRIBUTES] & COMPRESSION_MASK).any():
        arena = np.frombuffer(b"".join(pieces), np.uint8)
        ends = np.cumsum(sizes)
        starts = ends - sizes
    else:  # they can be read where they lie
        arena = np.frombuffer(batches.records, np.uint8)
        starts = headers[:, POSITION] + HEADER_BYTES
        ends = starts + sizes
    rows: Any = np.empty((int(headers[:, COUNT].sum()), kernels.RECORD_COLUMNS), np.int64)
    count, totals, problem, where = kernels.index_records(
        arena, starts, ends, headers, wanted.start_offset, wanted.end_offset, wanted.has_headers, rows
    )
    if problem != kernels.FINE:
        raise Corrupt(f"batch at offset {headers[where, BASE_OFFSET]}", kernels.PROBLEMS[problem])
    if count:
        yield _arrow_batch(arena, rows[:count], totals, wanted)


def _arrow_batch(arena: Any, rows: Any, totals: Any, wanted: WantedRows) -> pa.RecordBatch:
    count = len(rows)
    topic = wanted.topic.encode()
    topics = pa.py_buffer(np.tile(np.frombuffer(topic, np.uint8), count))
    topic_offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(len(topic)))
    columns = [
        _binary(arena, rows, kernels.KEY_AT, int(totals[0])),
        _binary(arena, rows, kernels.VALUE_AT, int(totals[1])),
        pa.StringArray.from_buffers(count, topic_offsets, topics),
        pa.array(np.full(count, wanted.partition, np.int32)),
        pa.array(np.ascontiguousarray(rows[:, kernels.OFFSET])),
        pa.array(np.ascontiguousarray(rows[:, kernels.TIME_US])).view(SCHEMA.field("timestamp").type),
        pa.array(rows[:, kernels.TIME_TYPE].astype(np.int32)),
    ]
    if wanted.has_headers:
        columns.append(_headers(arena, rows, totals))
    return pa.RecordBatch.from_arrays(columns, schema=wanted.schema)


def _binary(arena: Any, rows: Any, at_column: int, size: int) -> pa.Array:
    count = len(rows)
    offsets: Any = np.empty(count + 1, np.int32)
    content: Any = np.empty(size, np.uint8)
    validity: Any = np.zeros((count + 7) // 8, np.uint8)
    nulls = kernels.gather(arena, rows, at_column, offsets, content, validity)
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, nulls)


def _headers(arena: Any, rows: Any, totals: Any) -> pa.Array:
    """A list for each record, empty where it has no headers: a null list makes Spark's hand-over ten times slower."""
    count = int(totals[4])
    lists: Any = np.empty(len(rows) + 1, np.int32)
    name_offsets: Any = np.empty(count + 1, np.int32)
    value_offsets: Any = np.empty(count + 1, np.int32)
    names: Any = np.empty(int(totals[2]), np.uint8)
    values: Any = np.empty(int(totals[3]), np.uint8)
    validity: Any = np.zeros((count + 7) // 8, np.uint8)
    kernels.gather_headers(arena, rows, lists, name_offsets, names, value_offsets, values, validity)
    name_array = pa.StringArray.from_buffers(count, pa.py_buffer(name_offsets), pa.py_buffer(names))
    try:
        name_array.validate(full=True)
    except pa.ArrowInvalid:  # a name that is no text: rare enough to go through Python
        raw = name_array.view(pa.binary()).to_pylist()
        name_array = pa.array([name.decode("utf-8", "replace") for name in raw], pa.string())
    value_array = pa.Array.from_buffers(
        pa.binary(), count, [pa.py_buffer(validity), pa.py_buffer(value_offsets), pa.py_buffer(values)]
    )
    pairs = pa.StructArray.from_arrays([name_array, value_array], fields=_HEADER_FIELDS)
    return pa.Array.from_buffers(HEADERS_TYPE, len(rows), [None, pa.py_buffer(lists)], 0, children=[pairs])
