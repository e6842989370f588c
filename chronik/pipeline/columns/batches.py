"""A topic by its record batches: one row each, from the header, for those that ask what is there and not what it says.

Records are looked at only in a batch that compaction has thinned out: which of its offsets are left is nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from chronik.core.records.batch import (
    COMPRESSION_MASK,
    COMPRESSION_NAMES,
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from chronik.core.records.control import read_marker
from chronik.pipeline.columns import kernels
from chronik.pipeline.columns.decode import AnswerBatches, WantedRows, checked_batch, record_offsets
from chronik.pipeline.columns.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIME,
    COUNT,
    LAST_DELTA,
    MAX_TIME,
    POSITION,
    SIZE,
)

SEQUENCES = 1 << 31  # they begin at 0 again after the last
_TIME = pa.timestamp("us", tz="UTC")
_TIME_MS_MAX = 9_223_372_036_854_775
_LEADER_EPOCH, _PRODUCER_EPOCH, _BASE_SEQUENCE = (12, ">i4"), (51, ">i2"), (53, ">i4")  # where, and what, in a header
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("start_offset", pa.int64(), nullable=False),
        pa.field("end_offset", pa.int64(), nullable=False),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int32()),
        ("size_bytes", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("sequence", pa.int32()),
        ("first_timestamp", _TIME),
        ("max_timestamp", _TIME),
        ("timestamp_type", pa.int32()),
        ("compression", pa.string()),
        ("is_transactional", pa.bool_()),
        ("is_control", pa.bool_()),
        ("marker", pa.string()),
    ]
)
"""As `schemas.BATCHES` has it for Spark."""


def batch_rows(batches: AnswerBatches, wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    """The wanted part of these batches. Raises Corrupt for one whose checksum does not hold."""
    base, last = batches.headers[:, BASE_OFFSET], _last_offsets(batches.headers)
    kept = np.flatnonzero((base < wanted.end_offset) & (last >= wanted.start_offset))
    pieces = [_runs(batches, int(number)) for number in kept]
    numbers: Any = np.repeat(kept, [len(piece) for piece in pieces])
    if not len(numbers):
        return
    runs = np.concatenate(pieces)
    starts, ends = np.maximum(runs[:, 0], wanted.start_offset), np.minimum(runs[:, 1], wanted.end_offset)
    inside = starts < ends
    if inside.any():
        yield _rows(batches, numbers[inside], starts[inside], ends[inside], wanted)


def _last_offsets(headers: Any) -> Any:
    return headers[:, BASE_OFFSET] + headers[:, LAST_DELTA]


def _runs(batches: AnswerBatches, number: int) -> Any:
    """The offsets that are there, as an array of [start, end)."""
    header = batches.headers[number]
    checked_batch(batches, number)
    span = int(header[LAST_DELTA]) + 1
    base = int(header[BASE_OFFSET])
    if int(header[COUNT]) == span:
        return np.array([[base, base + span]], np.int64)
    offsets = record_offsets(batches, number)
    if not len(offsets):
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    starts = offsets[np.concatenate(([0], breaks + 1))]
    ends = offsets[np.concatenate((breaks, [len(offsets) - 1]))] + 1
    return np.stack((starts, ends), axis=1)


def _rows(batches: AnswerBatches, numbers: Any, starts: Any, ends: Any, wanted: WantedRows) -> pa.RecordBatch:
    headers = batches.headers[numbers]
    attributes = headers[:, ATTRIBUTES]
    is_control = (attributes & CONTROL_BIT) != 0
    sequences = _header_field(batches, headers, *_BASE_SEQUENCE)
    here = (sequences + (starts - headers[:, BASE_OFFSET])) % SEQUENCES
    markers = [
        _marker(batches, int(number)) if control else None for number, control in zip(numbers, is_control, strict=True)
    ]
    columns = [
        pa.array(np.full(len(numbers), wanted.topic, object), pa.string()),
        pa.array(np.full(len(numbers), wanted.partition, np.int32)),
        pa.array(starts),
        pa.array(ends),
        pa.array(headers[:, BASE_OFFSET]),
        pa.array(_last_offsets(headers)),
        pa.array(headers[:, COUNT].astype(np.int32)),
        pa.array(headers[:, SIZE].astype(np.int32)),
        pa.array(_header_field(batches, headers, *_LEADER_EPOCH).astype(np.int32)),
        pa.array(headers[:, kernels.PRODUCER]),
        pa.array(_header_field(batches, headers, *_PRODUCER_EPOCH).astype(np.int32)),
        pa.array(np.where(sequences < 0, -1, here).astype(np.int32)),
        _times(headers[:, BASE_TIME]),
        _times(headers[:, MAX_TIME]),
        pa.array(((attributes & TIMESTAMP_TYPE_BIT) != 0).astype(np.int32)),
        pa.array(np.array([*COMPRESSION_NAMES, *["unknown"] * 3], object)[attributes & COMPRESSION_MASK], pa.string()),
        pa.array((attributes & TRANSACTIONAL_BIT) != 0),
        pa.array(is_control),
        pa.array(markers, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _header_field(batches: AnswerBatches, headers: Any, at: int, kind: str) -> Any:
    """A field of each header that the compiled walk leaves out."""
    size = np.dtype(kind).itemsize
    places = headers[:, POSITION, None] + np.arange(at, at + size)
    return np.ascontiguousarray(np.frombuffer(batches.records, np.uint8)[places]).view(kind)[:, 0].astype(np.int64)


def _times(milliseconds: Any) -> pa.Array:
    return pa.array(np.clip(milliseconds, -_TIME_MS_MAX, _TIME_MS_MAX) * 1000).view(_TIME)


def _marker(batches: AnswerBatches, number: int) -> str | None:
    marker = read_marker(batches.bytes_of(number))
    if marker is None:
        return None
    return "commit" if marker.is_commit else "abort"
