"""The loops over single records, compiled: record batches (Kafka's format v2) to columns, and columns to batches.

Plain arrays in and out. The bytes come from anyone, so every length is held against what is left before it is used.
Positions are unsigned: with signed ones the compiler adds a check for negative indices to each access, and the loops
run half as fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# What the walk over records can find wrong. The words are in `PROBLEMS`.
FINE = 0
RECORD_LENGTH = 1
RECORD_NUMBER = 2
RECORD_OFFSET = 3
RECORD_KEY = 4
RECORD_VALUE = 5
RECORD_HEADERS = 6
RECORD_REST = 7
PROBLEMS = {
    RECORD_LENGTH: "a record is longer than its batch",
    RECORD_NUMBER: "a number in a record does not end",
    RECORD_OFFSET: "a record's offset is outside its batch",
    RECORD_KEY: "a key is longer than its record",
    RECORD_VALUE: "a value is longer than its record",
    RECORD_HEADERS: "the headers do not fill their record",
    RECORD_REST: "bytes behind the last record",
}

# The columns of a batch's header that matter here, as `read_headers` fills them.
POSITION, SIZE, BASE_OFFSET, LAST_DELTA, ATTRIBUTES, BASE_TIME, MAX_TIME, PRODUCER, COUNT, CRC, MAGIC = range(11)
HEADER_COLUMNS = 11
# The columns of a record, as `index_records` fills them: places and lengths of its parts within the arena.
OFFSET, TIME_US, TIME_TYPE, KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADER_COUNT = range(9)
RECORD_COLUMNS = 9

_HEADER_BYTES = np.uint64(61)
_LENGTH_END = np.uint64(12)
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
_TIME_MS_MAX = 9_223_372_036_854_775  # in microseconds this still fits in 64 bits


@njit(cache=True, nogil=True)
def _fixed(buffer: Any, position: Any, size: Any) -> Any:
    """A big-endian number, without its sign."""
    value = np.uint64(0)
    for step in range(size):
        value = (value << np.uint64(8)) | np.uint64(buffer[position + np.uint64(step)])
    return value


@njit(cache=True, nogil=True)
def read_headers(buffer: Any, headers: Any) -> Any:
    """The headers of the whole batches in `buffer`, as far as `headers` has rows; a cut one at the end is left.

    Returns how many, and where the first one that makes no sense begins (-1: none). With no rows it only counts.
    """
    size = np.uint64(buffer.size)
    position = np.uint64(0)
    count = 0
    while size - position >= _HEADER_BYTES:
        length = np.int64(np.int32(_fixed(buffer, position + np.uint64(8), 4)))
        if length < np.int64(_HEADER_BYTES - _LENGTH_END):
            return count, np.int64(position)
        whole = np.uint64(length) + _LENGTH_END
        if whole > size - position:
            break
        if count < headers.shape[0]:
            row = headers[count]
            row[POSITION] = np.int64(position)
            row[SIZE] = np.int64(whole)
            row[BASE_OFFSET] = np.int64(_fixed(buffer, position, 8))
            row[MAGIC] = np.int64(buffer[position + np.uint64(16)])
            row[CRC] = np.int64(_fixed(buffer, position + np.uint64(17), 4))
            row[ATTRIBUTES] = np.int64(_fixed(buffer, position + np.uint64(21), 2))
            row[LAST_DELTA] = np.int64(np.int32(_fixed(buffer, position + np.uint64(23), 4)))
            row[BASE_TIME] = np.int64(_fixed(buffer, position + np.uint64(27), 8))
            row[MAX_TIME] = np.int64(_fixed(buffer, position + np.uint64(35), 8))
            row[PRODUCER] = np.int64(_fixed(buffer, position + np.uint64(43), 8))
            row[COUNT] = np.int64(np.int32(_fixed(buffer, position + np.uint64(57), 4)))
        count += 1
        position += whole
    return count, np.int64(-1)


@njit(cache=True, nogil=True)
def _varint(buffer: Any, position: Any, end: Any) -> Any:
    """A zigzag number and where it ends; `_NOWHERE` when it does not end before `end` or within ten bytes."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift < np.uint64(70):
        byte = np.uint64(buffer[position])
        position += np.uint64(1)
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), _NOWHERE


@njit(cache=True, nogil=True)
def _walk_headers(arena: Any, position: Any, end: Any, count: Any) -> Any:
    """Past `count` headers: where they end, and the bytes of their names and of their values."""
    name_bytes = np.int64(0)
    value_bytes = np.int64(0)
    for _ in range(count):
        size, position = _varint(arena, position, end)
        if position == _NOWHERE or size < 0 or size > np.int64(end - position):
            return _NOWHERE, name_bytes, value_bytes
        position += np.uint64(size)
        name_bytes += size
        size, position = _varint(arena, position, end)
        if position == _NOWHERE or size > np.int64(end - position):
            return _NOWHERE, name_bytes, value_bytes
        if size > 0:
            position += np.uint64(size)
            value_bytes += size
    return position, name_bytes, value_bytes


@njit(cache=True, nogil=True)
def _read_record(arena: Any, position: Any, batch_end: Any, batch: Any, row: Any) -> Any:
    """One record into `row`: what is wrong with it, where it ends, and where its headers begin."""
    size, position = _varint(arena, position, batch_end)
    if position == _NOWHERE or size < 1 or size > np.int64(batch_end - position):
        return RECORD_LENGTH, position, position
    end = position + np.uint64(size)
    time_delta, position = _varint(arena, position + np.uint64(1), end)  # after the attributes, which are unused
    if position == _NOWHERE:
        return RECORD_NUMBER, end, position
    offset_delta, position = _varint(arena, position, end)
    if position == _NOWHERE or offset_delta < 0 or offset_delta > batch[LAST_DELTA]:
        return RECORD_OFFSET, end, position
    key_size, position = _varint(arena, position, end)
    if position == _NOWHERE or key_size > np.int64(end - position):
        return RECORD_KEY, end, position
    row[KEY_AT] = np.int64(position)
    row[KEY_SIZE] = key_size
    position += np.uint64(max(key_size, 0))
    value_size, position = _varint(arena, position, end)
    if position == _NOWHERE or value_size > np.int64(end - position):
        return RECORD_VALUE, end, position
    row[VALUE_AT] = np.int64(position)
    row[VALUE_SIZE] = value_size
    position += np.uint64(max(value_size, 0))
    header_count, position = _varint(arena, position, end)
    # A header has at least two bytes: its lengths.
    if position == _NOWHERE or header_count < 0 or header_count > np.int64(end - position) // 2:
        return RECORD_HEADERS, end, position
    row[HEADERS_AT] = np.int64(position)
    row[HEADER_COUNT] = header_count
    row[OFFSET] = batch[BASE_OFFSET] + offset_delta
    row[TIME_TYPE] = (batch[ATTRIBUTES] >> 3) & 1
    time_ms = batch[MAX_TIME] if row[TIME_TYPE] else batch[BASE_TIME] + time_delta
    row[TIME_US] = min(max(time_ms, -_TIME_MS_MAX), _TIME_MS_MAX) * 1000
    return FINE, end, position


@njit(cache=True, nogil=True)
def index_records(
    arena: Any, starts: Any, ends: Any, batches: Any, from_offset: Any, to_offset: Any, with_headers: Any, rows: Any
) -> Any:
    """Where the parts of each record are, for the records from `from_offset` to before `to_offset`.

    The records of batch i stand in `arena[starts[i]:ends[i]]`. Returns how many rows were filled, the bytes of all
    keys, values, header names and header values, the number of headers, what is wrong, and in which batch.
    """
    totals: Any = np.zeros(5, np.int64)
    count = 0
    spare: Any = np.zeros(RECORD_COLUMNS, np.int64)
    for number in range(batches.shape[0]):
        batch = batches[number]
        position = np.uint64(starts[number])
        batch_end = np.uint64(ends[number])
        for _ in range(batch[COUNT]):
            problem, end, position = _read_record(arena, position, batch_end, batch, spare)
            if problem != FINE:
                return count, totals, problem, number
            if from_offset <= spare[OFFSET] < to_offset:
                if with_headers:
                    position, name_bytes, value_bytes = _walk_headers(arena, position, end, spare[HEADER_COUNT])
                    if position != end:
                        return count, totals, RECORD_HEADERS, number
                    totals[2] += name_bytes
                    totals[3] += value_bytes
                    totals[4] += spare[HEADER_COUNT]
                totals[0] += max(spare[KEY_SIZE], 0)
                totals[1] += max(spare[VALUE_SIZE], 0)
                row = rows[count]
                for column in range(RECORD_COLUMNS):
                    row[column] = spare[column]
                count += 1
            position = end
        if position != batch_end:
            return count, totals, RECORD_REST, number
    return count, totals, FINE, 0


@njit(cache=True, nogil=True)
def _copy(source: Any, at: Any, target: Any, to: Any, size: Any) -> None:
    # Slices first: so the compiler sees two plain runs of bytes and copies many at a time.
    taken = source[np.uint64(at) : np.uint64(at) + np.uint64(size)]
    given = target[np.uint64(to) : np.uint64(to) + np.uint64(size)]
    for step in range(np.uint64(size)):
        given[step] = taken[step]


@njit(cache=True, nogil=True)
def gather(arena: Any, rows: Any, at_column: Any, offsets: Any, content: Any, validity: Any) -> Any:
    """The keys (or values) of `rows` one behind the other, as Arrow keeps them. Returns how many are null."""
    nulls = 0
    to = np.int64(0)
    for number in range(rows.shape[0]):
        offsets[number] = to
        size = rows[number, at_column + 1]
        if size < 0:
            nulls += 1
            continue
        validity[number >> 3] |= np.uint8(1 << (number & 7))
        _copy(arena, rows[number, at_column], content, to, size)
        to += size
    offsets[rows.shape[0]] = to
    return nulls


@njit(cache=True, nogil=True)
def gather_headers(
    arena: Any, rows: Any, lists: Any, name_offsets: Any, names: Any, value_offsets: Any, values: Any, validity: Any
) -> None:
    """The headers of `rows`, which `index_records` has checked: a list a row, and names and values of all of them."""
    everywhere = np.uint64(arena.size)
    count = 0
    name_to = np.int64(0)
    value_to = np.int64(0)
    for number in range(rows.shape[0]):
        lists[number] = count
        position = np.uint64(rows[number, HEADERS_AT])
        for _ in range(rows[number, HEADER_COUNT]):
            size, position = _varint(arena, position, everywhere)
            name_offsets[count] = name_to
            _copy(arena, position, names, name_to, size)
            name_to += size
            position += np.uint64(size)
            size, position = _varint(arena, position, everywhere)
            value_offsets[count] = value_to
            if size >= 0:
                validity[count >> 3] |= np.uint8(1 << (count & 7))
                _copy(arena, position, values, value_to, size)
                value_to += size
                position += np.uint64(size)
            count += 1
    lists[rows.shape[0]] = count
    name_offsets[count] = name_to
    value_offsets[count] = value_to
