"""Requests in a stream of bytes: a size, then a header, then the message.

`Inbox` hands the transport memory to read into: small requests share one buffer, a large one gets memory of its
own size and is read into place. What it gives out is writable, so the log can stamp a batch where it lies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.reader import skip_tags
from chronik.wire.spares import SPARE_BYTES, Spares
from chronik.wire.versions import API_VERSIONS, APIS

SIZE_BYTES = 4
SHARED_BYTES = 64 * 1024
# A large request gets memory as its bytes come in, this much first and then several times what is there: whoever
# promises 100 MB and sends nothing has cost next to nothing.
LARGE_BYTES = 2 * SHARED_BYTES
LARGE_GROWTH = 4

spares = Spares()  # of all connections

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")


class RequestHeader(NamedTuple):
    """Who asks what; `body` is where the message begins."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    body: int


_client_ids: dict[bytes, str] = {}
CLIENT_IDS_KEPT = 1024


def read_header(frame: Buffer) -> RequestHeader:
    """The header of a request. Raises Malformed."""
    try:
        api_key, version, correlation_id, client_size = _HEADER.unpack_from(frame, 0)
        position = _HEADER.size
        client_id = ""
        if client_size > 0:
            raw = bytes(frame[position : position + client_size])
            if len(raw) < client_size:
                raise Malformed("the client id reaches past the end")
            client_id = _client_ids.get(raw) or _remember(raw)
            position += client_size
        api = APIS.get(api_key)
        if api is not None and api.is_flexible(version) and api.lowest <= version <= api.highest:
            position = skip_tags(frame, position)
        return RequestHeader(api_key, version, correlation_id, client_id, position)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"request header: {problem}") from problem


def _remember(raw: bytes) -> str:
    text = raw.decode()
    if len(_client_ids) < CLIENT_IDS_KEPT:  # clients choose their ids: what we keep of them is bounded
        _client_ids[raw] = text
    return text


def response_head(api_key: int, version: int, correlation_id: int) -> bytes:
    """The response header. ApiVersions always has the old one: the client does not know our versions yet."""
    api = APIS[api_key]
    if api.is_flexible(version) and api_key != API_VERSIONS:
        return correlation_id.to_bytes(4, "big", signed=True) + b"\x00"
    return correlation_id.to_bytes(4, "big", signed=True)


class Inbox:
    """What has been read of a connection and not yet been taken as whole requests."""

    __slots__ = ("_filled", "_frame_bytes_max", "_large", "_large_filled", "_large_size", "_limit_name", "_shared")

    def __init__(self, frame_bytes_max: int, limit_name: str = "socket.request.max.bytes") -> None:
        self._frame_bytes_max = frame_bytes_max
        self._limit_name = limit_name
        self._shared = bytearray()  # taken at the first byte: an idle connection costs no buffer
        self._filled = 0
        self._large: bytearray | None = None  # a request too large for the shared buffer, in memory of its own
        self._large_filled = 0
        self._large_size = 0  # of the whole request

    def space(self) -> memoryview:
        """Where the transport may write next."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled : self._large_size]
        if not self._shared:
            self._shared = bytearray(SHARED_BYTES)
        return memoryview(self._shared)[self._filled :]

    def filled(self, count: int) -> Iterator[memoryview]:
        """`count` bytes have come in: the requests that are whole now. Raises Malformed for an impossible size."""
        if self._large is not None:
            self._large_filled += count
            if self._large_filled == self._large_size:
                memory, self._large = self._large, None
                spares.give(memory)
                frame = memoryview(memory)[: self._large_size]
                del memory  # a view is all that keeps it from being used again
                yield frame
            elif self._large_filled == len(self._large):
                self._large = self._begun(self._large, self._large_filled * LARGE_GROWTH)
            return
        self._filled += count
        yield from self._take_small()

    def _take_small(self) -> Iterator[memoryview]:
        shared, end = self._shared, self._filled
        position = 0
        while end - position >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(shared, position)
            if size < 0 or size > self._frame_bytes_max:
                raise Malformed(f"a frame of {size} bytes; the limit ({self._limit_name}) is {self._frame_bytes_max}")
            start = position + SIZE_BYTES
            if end - start < size:
                if size > SHARED_BYTES - SIZE_BYTES:
                    self._large_size, self._large_filled = size, end - start
                    self._large = self._begun(memoryview(shared)[start:end], LARGE_BYTES)
                    position = end
                break
            # A copy, because the shared buffer is written over while a batch of this request may still be waiting.
            yield memoryview(bytearray(shared[start : start + size]))
            position = start + size
        rest = end - position
        if position and rest:
            shared[:rest] = shared[position:end]
        self._filled = rest

    def _begun(self, so_far: Buffer, room_bytes: int) -> bytearray:
        """Memory for a large request, with what has come of it."""
        memory = spares.take() if self._large_size <= SPARE_BYTES else None
        if memory is None:
            grows_to_spare = room_bytes > LARGE_BYTES and self._large_size <= SPARE_BYTES
            memory = bytearray(SPARE_BYTES if grows_to_spare else min(room_bytes, self._large_size))
        memory[: len(so_far)] = so_far
        return memory
