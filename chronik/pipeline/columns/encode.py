"""Arrow columns to record batches, ready to be sent: no Python per record, as on the way in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.core.records.batch import MAGIC, TRANSACTIONAL_BIT, BatchHeader
from chronik.core.records.payload import assemble, pack
from chronik.pipeline.columns import encode_kernels as kernels
from chronik.pipeline.columns.encode_kernels import Bytes, Rows


class BadRow(ValueError):
    """A row that cannot become a record; the message says why."""


@dataclass(frozen=True)
class Numbered:
    """Which producer's batch it is, and its number: what makes a second copy of it recognisable."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool = False


@dataclass(frozen=True)
class Packed:
    """The records of a batch that has no producer yet."""

    body: bytes
    count: int
    base_ms: int
    latest_ms: int
    compression: int

    def batch(self, numbered: Numbered) -> bytes:
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self.compression | (TRANSACTIONAL_BIT if numbered.is_transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_ms,
            max_timestamp=self.latest_ms,
            producer_id=numbered.producer_id,
            producer_epoch=numbered.producer_epoch,
            base_sequence=numbered.base_sequence,
            record_count=self.count,
        )
        return bytes(assemble(self.body, header))


def columns_of(table: pa.Table, now_ms: int) -> Rows:
    """The columns key, value, headers and timestamp of a table, as far as it has them, for the compiled loops."""
    count = table.num_rows
    lists, names, contents = _headers(_column(table, "headers"), count)
    return Rows(
        _bytes(_column(table, "key"), count),
        _bytes(_column(table, "value"), count),
        lists,
        names,
        contents,
        _times_ms(_column(table, "timestamp"), count, now_ms),
    )


def _column(table: pa.Table, name: str) -> pa.Array | None:
    if name not in table.column_names:
        return None
    combined = table.column(name).combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _bytes(array: pa.Array | None, count: int) -> Bytes:
    if array is None:
        return Bytes(np.empty(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64))
    plain = array.cast(pa.binary())
    _, offset_buffer, content_buffer = plain.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[plain.offset : plain.offset + count + 1].astype(np.int64)
    content = np.frombuffer(content_buffer, np.uint8) if content_buffer else np.empty(0, np.uint8)
    sizes = np.where(plain.is_null().to_numpy(zero_copy_only=False), -1, np.diff(offsets))
    return Bytes(content, offsets[:-1], sizes)


def _headers(array: pa.Array | None, count: int) -> tuple[Any, Bytes, Bytes]:
    if array is None:
        nothing = _bytes(None, 0)
        return np.zeros(count + 1, np.int64), nothing, nothing
    flat = array.flatten()  # without what stands behind null lists
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    lists = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    names, contents = _bytes(flat.field(0), len(flat)), _bytes(flat.field(1), len(flat))
    if (names.size < 0).any():
        raise BadRow("a header without a key")
    return lists, names, contents


def _times_ms(array: pa.Array | None, count: int, now_ms: int) -> Any:
    if array is None:
        return np.full(count, now_ms, np.int64)
    micros = array.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    known = pc.fill_null(micros, now_ms * 1000).to_numpy(zero_copy_only=False)
    return np.floor_divide(known, 1000)


def choose_partitions(rows: Rows, table: pa.Table, members: Any, partition_count: int, without_key: int) -> Any:
    """The partition for each row of `members`: the one its column says, else by its key, else `without_key`.

    Raises BadRow. Rows of other topics are left at -1.
    """
    chosen = np.full(table.num_rows, -1, np.int32)
    column = _column(table, "partition")
    if column is not None:
        said = pc.fill_null(column.cast(pa.int32()), -1).to_numpy(zero_copy_only=False)
        if (said[members] >= partition_count).any():
            raise BadRow(f"partition {said[members].max()} of a topic with {partition_count} partitions")
        chosen[members] = said[members]
    kernels.partitions_by_key(rows.keys, members, partition_count, without_key, chosen)
    return chosen


def pack_rows(rows: Rows, order: Any, batch_bytes: int, compression: int) -> Iterator[Packed]:
    """The rows `order`, all of one partition, as batches of about `batch_bytes` before compression."""
    out = np.empty(kernels.room_for(rows, order), np.uint8)
    first = 0
    while first < len(order):
        count, size, latest_ms = kernels.write_records(rows, order, first, batch_bytes, out)
        body = pack(out[:size].tobytes(), compression)
        yield Packed(body, int(count), int(rows.times_ms[order[first]]), int(latest_ms), compression)
        first += int(count)
