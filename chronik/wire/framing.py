"""Requests in a stream of bytes: a size, then a header, then the message.

`Inbox` hands the transport memory to read into: all connections share one scratch buffer, a large request gets memory
of its own and is read into place. What it gives out is writable, so the log can stamp a batch where it lies.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from chronik.core.types import Buffer
from chronik.wire.errors import ImpossibleSize, Malformed
from chronik.wire.reader import skip_tags
from chronik.wire.spares import SPARE_BYTES, Spares
from chronik.wire.versions import API_VERSIONS, APIS

SIZE_BYTES = 4
SHARED_BYTES = 64 * 1024
# A large request gets memory of its own when this much of it is there, twice the scratch buffer first and then several
# times what is there: a client that promises 100 MB and sends nothing has cost nothing.
LARGE_FROM_BYTES = SHARED_BYTES // 2
LARGE_BYTES = 2 * SHARED_BYTES
LARGE_GROWTH = 4
HUGE_GROWTH = 2  # of requests of more than a megabyte: what is taken in advance counts then

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
    """What has been read of a connection and not yet been taken as whole requests.

    All connections of a node read into one scratch buffer: get_buffer and buffer_updated come as a pair, with nothing
    in between. What is left of a request there is taken out again, so a connection has memory only for bytes that came.
    """

    __slots__ = (
        "_frame_bytes_max",
        "_large",
        "_large_filled",
        "_large_size",
        "_limit_name",
        "_rest",
        "_scratch",
        "unfinished_bytes",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        limit_name: str = "socket.request.max.bytes",
        scratch: bytearray | None = None,
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._limit_name = limit_name
        self._scratch = bytearray(SHARED_BYTES) if scratch is None else scratch
        self._rest = b""  # of the scratch buffer: the beginning of a request
        self._large: bytearray | None = None  # a request too large for the scratch buffer, in memory of its own
        self._large_filled = 0
        self._large_size = 0  # of the whole request
        self.unfinished_bytes = 0  # memory taken for a request that is not whole yet

    def limit(self, frame_bytes_max: int, limit_name: str) -> None:
        """From now on."""
        self._frame_bytes_max, self._limit_name = frame_bytes_max, limit_name

    def space(self) -> memoryview:
        """Where the transport may write next; `filled` has to follow before another inbox is asked."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled : self._large_size]
        rest = self._rest
        if rest:
            self._scratch[: len(rest)] = rest
            return memoryview(self._scratch)[len(rest) :]
        return memoryview(self._scratch)

    def filled(self, count: int) -> list[memoryview]:
        """`count` bytes have come in: the requests that are whole now. Raises ImpossibleSize."""
        if self._large is not None:
            self._large_filled += count
            if self._large_filled == self._large_size:
                memory, self._large = self._large, None
                self.unfinished_bytes = 0
                spares.give(memory)
                frame = memoryview(memory)[: self._large_size]
                del memory  # a view is all that keeps it from being used again
                return [frame]
            if self._large_filled == len(self._large):
                growth = LARGE_GROWTH if self._large_filled < SPARE_BYTES else HUGE_GROWTH
                self._large = self._begun(self._large, self._large_filled * growth)
                self.unfinished_bytes = len(self._large)
            return []
        return self._take_small(len(self._rest) + count)

    def _take_small(self, end: int) -> list[memoryview]:
        scratch, position = self._scratch, 0
        frames: list[memoryview] = []
        while end - position >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(scratch, position)
            if size < 0 or size > self._frame_bytes_max:
                limit = f"the limit ({self._limit_name}) is {self._frame_bytes_max}"
                raise ImpossibleSize(f"a frame of {size} bytes; {limit}", frames)
            start = position + SIZE_BYTES
            if end - start < size:
                if size > SHARED_BYTES - SIZE_BYTES and end - start >= LARGE_FROM_BYTES:
                    self._large_size, self._large_filled = size, end - start
                    self._large = self._begun(memoryview(scratch)[start:end], LARGE_BYTES)
                    self.unfinished_bytes, self._rest = len(self._large), b""
                    return frames
                break
            # A copy, because the scratch buffer is written over while a batch of this request may still be waiting.
            frames.append(memoryview(bytearray(scratch[start : start + size])))
            position = start + size
        if position != end or self._rest:
            self._rest = bytes(scratch[position:end])
            self.unfinished_bytes = end - position
        return frames

    def _begun(self, so_far: Buffer, room_bytes: int) -> bytearray:
        """Memory for a large request, with what has come of it."""
        memory = spares.take() if self._large_size <= SPARE_BYTES else None
        if memory is None:
            grows_to_spare = room_bytes > LARGE_BYTES and self._large_size <= SPARE_BYTES
            memory = bytearray(SPARE_BYTES if grows_to_spare else min(room_bytes, self._large_size))
        memory[: len(so_far)] = so_far
        return memory
