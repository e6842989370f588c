"""The loops over single records on the way out, compiled: columns to the records of a batch, and keys to partitions.

A column of bytes comes as three arrays: the bytes of all rows, where each row's begin, and how many (-1: null).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Bytes(NamedTuple):
    """A column of bytes."""

    content: Any
    at: Any
    size: Any


class Rows(NamedTuple):
    """The columns of records to be written. The headers of row i are those from `lists[i]` to before `lists[i + 1]`."""

    keys: Bytes
    values: Bytes
    lists: Any
    names: Bytes
    contents: Bytes
    times_ms: Any


@njit(cache=True, nogil=True)
def _varint_size(value: Any) -> Any:
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size


@njit(cache=True, nogil=True)
def _write_varint(out: Any, position: Any, value: Any) -> Any:
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        out[position] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
        rest >>= np.uint64(7)
        position += np.uint64(1)
    out[position] = np.uint8(rest)
    return position + np.uint64(1)


@njit(cache=True, nogil=True)
def _write_bytes(out: Any, position: Any, column: Any, row: Any) -> Any:
    size = np.int64(column.size[row])
    position = _write_varint(out, position, size)
    if size <= 0:
        return position
    given = out[position : position + np.uint64(size)]
    taken = column.content[np.uint64(column.at[row]) : np.uint64(column.at[row]) + np.uint64(size)]
    for step in range(np.uint64(size)):
        given[step] = taken[step]
    return position + np.uint64(size)


@njit(cache=True, nogil=True)
def _bytes_size(column: Any, row: Any) -> Any:
    size = np.int64(column.size[row])
    return _varint_size(size) + max(size, 0)


@njit(cache=True, nogil=True)
def _record_size(rows: Any, row: Any, time_delta: Any, offset_delta: Any) -> Any:
    """Of a record, without the length in front of it."""
    size = 1 + _varint_size(time_delta) + _varint_size(offset_delta)
    size += _bytes_size(rows.keys, row) + _bytes_size(rows.values, row)
    size += _varint_size(rows.lists[row + 1] - rows.lists[row])
    for header in range(rows.lists[row], rows.lists[row + 1]):
        size += _bytes_size(rows.names, header) + _bytes_size(rows.contents, header)
    return size


@njit(cache=True, nogil=True)
def room_for(rows: Any, order: Any) -> Any:
    """Bytes that these rows cannot exceed as records, whatever batch they get into."""
    total = np.int64(0)
    for row in order:
        total += _record_size(rows, row, np.int64(-1) << np.int64(62), np.int64(1) << np.int64(31)) + 10
    return total


@njit(cache=True, nogil=True)
def write_records(rows: Any, order: Any, first: Any, bytes_max: Any, out: Any) -> Any:
    """Records of the rows `order[first]`, `order[first + 1]`... while they stay within `bytes_max`; one at least.

    Returns how many there are, their bytes in `out`, and their latest time.
    """
    position = np.uint64(0)
    count = np.int64(0)
    base_ms = rows.times_ms[order[first]]
    latest_ms = base_ms
    for number in range(first, order.size):
        row = order[number]
        time_delta = rows.times_ms[row] - base_ms
        size = _record_size(rows, row, time_delta, count)
        if count > 0 and np.int64(position) + size + 5 > bytes_max:
            break
        position = _write_varint(out, position, np.int64(size))
        out[position] = np.uint8(0)  # attributes: none are defined
        position = _write_varint(out, position + np.uint64(1), time_delta)
        position = _write_varint(out, position, count)
        position = _write_bytes(out, position, rows.keys, row)
        position = _write_bytes(out, position, rows.values, row)
        position = _write_varint(out, position, np.int64(rows.lists[row + 1] - rows.lists[row]))
        for header in range(rows.lists[row], rows.lists[row + 1]):
            position = _write_bytes(out, position, rows.names, header)
            position = _write_bytes(out, position, rows.contents, header)
        latest_ms = max(latest_ms, rows.times_ms[row])
        count += 1
    return count, np.int64(position), latest_ms


@njit(cache=True, nogil=True)
def _murmur2(content: Any, at: Any, size: Any) -> Any:
    """Kafka's hash of a key (org.apache.kafka.common.utils.Utils.murmur2)."""
    seed, m, mask = np.uint64(0x9747B28C), np.uint64(0x5BD1E995), np.uint64(0xFFFFFFFF)
    length = np.uint64(size)
    at = np.uint64(at)
    h = (seed ^ length) & mask
    for word in range(length // np.uint64(4)):
        place = at + np.uint64(word) * np.uint64(4)
        k = np.uint64(0)
        for step in range(4):
            k |= np.uint64(content[place + np.uint64(step)]) << np.uint64(8 * step)
        k = (k * m) & mask
        k ^= k >> np.uint64(24)
        k = (k * m) & mask
        h = (h * m) & mask
        h ^= k
    rest = length % np.uint64(4)
    tail = at + length - rest
    if rest == np.uint64(3):
        h ^= np.uint64(content[tail + np.uint64(2)]) << np.uint64(16)
    if rest >= np.uint64(2):
        h ^= np.uint64(content[tail + np.uint64(1)]) << np.uint64(8)
    if rest >= np.uint64(1):
        h ^= np.uint64(content[tail])
        h = (h * m) & mask
    h ^= h >> np.uint64(13)
    h = (h * m) & mask
    h ^= h >> np.uint64(15)
    return h & mask


@njit(cache=True, nogil=True)
def partitions_by_key(keys: Any, rows: Any, partition_count: Any, without_key: Any, out: Any) -> None:
    """The partition of each of `rows` that a Java producer would choose; a record without a key goes to `without_key`.

    A row whose partition is known (not negative in `out`) keeps it.
    """
    for row in rows:
        if out[row] >= 0:
            continue
        if keys.size[row] < 0:
            out[row] = without_key
        else:
            hashed = _murmur2(keys.content, keys.at[row], keys.size[row]) & np.uint64(0x7FFFFFFF)
            out[row] = np.int32(hashed % np.uint64(partition_count))
