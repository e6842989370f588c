"""Walking the batches of a segment file from header to header, and checking them.

A file is read in chunks; a batch larger than a chunk costs one more read, never its whole size, as only the
61 bytes of its header are looked at. `sound_batches` reads and checks all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chronik.core.errors import Corrupt
from chronik.core.ports import File
from chronik.core.records.batch import (
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    BatchHeader,
    crc_holds,
    read_header,
    read_size,
)
from chronik.core.types import Buffer

CHUNK_BYTES = 16 * 1024
SCAN_BYTES = 1024 * 1024


class ScannedBatch(NamedTuple):
    """A batch in a file: where it begins, and its header."""

    position: int
    header: BatchHeader


def headers(
    file: File, position: int, end: int, *, floor_offset: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[ScannedBatch]:
    """The batches from `position` to `end`. Raises Corrupt where no whole batch with a higher offset stands."""
    chunk, chunk_start = b"", position
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_start, at = file.read(position, min(chunk_bytes, end - position)), position, 0
        problem = _header_problem(chunk, at, end - position, floor_offset)
        if problem is not None:
            raise Corrupt(f"{file.path} at {position}", problem)
        header = read_header(chunk, at)
        yield ScannedBatch(position, header)
        floor_offset = header.next_offset
        position += header.size_bytes


def _header_problem(chunk: Buffer, at: int, room_bytes: int, floor_offset: int) -> str | None:
    """Why no batch can begin here, or None."""
    if len(chunk) - at < HEADER_BYTES:
        return f"{len(chunk) - at} bytes are too few for a batch"
    header = read_header(chunk, at)
    if header.magic != MAGIC:
        return f"a batch of format v{header.magic}"
    if not HEADER_BYTES <= header.size_bytes <= room_bytes:
        return f"a batch of {header.size_bytes} bytes where {room_bytes} are left"
    if header.base_offset < floor_offset or header.last_offset_delta < 0:
        return f"offset {header.base_offset} where at least {floor_offset} is due"
    return None


def sound_batches(content: Buffer, where: str, position: int = 0, floor_offset: int = 0) -> Iterator[ScannedBatch]:
    """The batches that fill `content`, each with its checksum verified. Raises Corrupt at the first bad one."""
    view = memoryview(content)
    at = 0
    while at < len(view):
        problem = _header_problem(view, at, len(view) - at, floor_offset)
        if problem is not None:
            raise Corrupt(f"{where} at {position + at}", problem)
        header = read_header(view, at)
        if not crc_holds(view[at : at + header.size_bytes], header.crc):
            raise Corrupt(f"{where} at {position + at}", _checksum_problem(header))
        yield ScannedBatch(position + at, header)
        floor_offset = header.next_offset
        at += header.size_bytes


def _checksum_problem(header: BatchHeader) -> str:
    return f"the checksum of the batch at offset {header.base_offset} does not hold"


def read_batch(file: File, found: ScannedBatch) -> bytes:
    """The whole batch, its checksum verified."""
    batch = file.read(found.position, found.header.size_bytes)
    if len(batch) < found.header.size_bytes or not crc_holds(batch, found.header.crc):
        raise Corrupt(f"{file.path} at {found.position}", _checksum_problem(found.header))
    return batch


def sound_headers(
    file: File, position: int, end: int, *, floor_offset: int = 0, writes_again: bool = False
) -> Iterator[ScannedBatch]:
    """As `headers`, with every checksum verified; the very bytes that were verified are written again if need be."""
    chunk, chunk_start = b"", position
    while position < end:
        at = position - chunk_start
        size = _size_at(chunk, at)
        if size is None or at + size > len(chunk):
            chunk, chunk_start, at = file.read(position, min(max(SCAN_BYTES, size or 0), end - position)), position, 0
            size = _size_at(chunk, at)
            if size is not None and len(chunk) < size <= end - position:
                chunk = file.read(position, size)
        problem = _header_problem(chunk, at, end - position, floor_offset)
        if problem is not None:
            raise Corrupt(f"{file.path} at {position}", problem)
        header = read_header(chunk, at)
        batch = memoryview(chunk)[at : at + header.size_bytes]
        if not crc_holds(batch, header.crc):
            raise Corrupt(f"{file.path} at {position}", _checksum_problem(header))
        if writes_again:
            file.write_again(position, batch)
        yield ScannedBatch(position, header)
        floor_offset = header.next_offset
        position += header.size_bytes


def _size_at(chunk: bytes, at: int) -> int | None:
    """The size a batch claims to have, when so much of it is in the chunk."""
    return read_size(chunk, at)[1] if at + LENGTH_FIELD_END <= len(chunk) else None


def sound_batch_after(file: File, position: int, end: int, floor_offset: int) -> ScannedBatch | None:
    """A whole batch with a checksum that holds: at `position`, or anywhere behind with an offset above `floor_offset`.

    Asked about a bad batch, whose length says nothing. A write that was torn is the last thing in its file; a sound
    batch behind a bad one means that the bad one was whole once. (What a producer wraps in a record has offset 0.)
    """
    start, overlap = position, HEADER_BYTES - 1
    while position < end:
        chunk = file.read(position, min(SCAN_BYTES + overlap, end - position))
        at = chunk.find(MAGIC, 16)
        while at >= 0 and at - 16 < SCAN_BYTES and at - 16 + HEADER_BYTES <= len(chunk):
            place, header = position + at - 16, read_header(chunk, at - 16)
            if (header.base_offset > floor_offset or place == start) and _is_sound(file, place, end, header):
                return ScannedBatch(place, header)
            at = chunk.find(MAGIC, at + 1)
        position += SCAN_BYTES
    return None


def _is_sound(file: File, position: int, end: int, header: BatchHeader) -> bool:
    size = header.length + LENGTH_FIELD_END
    return HEADER_BYTES <= size <= end - position and crc_holds(file.read(position, size), header.crc)
