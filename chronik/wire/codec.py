"""Whole messages: a request's body to its handler's type, and a handler's response to a frame.

And the other way round, for what we ask other nodes: a request to a frame, and a response's frame to one type.
"""

from __future__ import annotations

import struct
from typing import Any

from chronik.core.types import Buffer
from chronik.wire.errors import Malformed
from chronik.wire.framing import response_head
from chronik.wire.lift import convert
from chronik.wire.reader import decode, skip_tags
from chronik.wire.schemas import request_type as _request_type
from chronik.wire.schemas import response_type as _response_type
from chronik.wire.versions import API_VERSIONS, APIS
from chronik.wire.writer import encode_into

CORRELATION_BYTES = 4

_SIZE_AND_HEADER = struct.Struct(">ihhih")


def decode_request(api_key: int, version: int, frame: Buffer, position: int, target: type) -> Any:
    """The request as the type its handler takes. Raises Malformed."""
    return convert(decode(_request_type(api_key, version), frame, position), target)


def encode_response(api_key: int, version: int, correlation_id: int, response: Any) -> bytes:
    """A frame with the handler's response in the version the client asked for."""
    response_type = _response_type(api_key, version)
    frame = bytearray(4)
    frame += response_head(api_key, version, correlation_id)
    encode_into(frame, convert(response, response_type))
    frame[0:4] = (len(frame) - 4).to_bytes(4, "big")
    return bytes(frame)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str, message: Any) -> bytes:
    """A frame with a request, of whatever version it is written in, in the version the other side knows."""
    request_type = _request_type(api_key, version)
    name = client_id.encode()
    frame = bytearray(_SIZE_AND_HEADER.size)
    frame += name
    if APIS[api_key].is_flexible(version):
        frame.append(0)
    encode_into(frame, convert(message, request_type))
    _SIZE_AND_HEADER.pack_into(frame, 0, len(frame) - 4, api_key, version, correlation_id, len(name))
    return bytes(frame)


def decode_response(api_key: int, version: int, frame: Buffer, target: type | None = None) -> Any:
    """The response in a frame (without its size), header and all, as a `target`: the newest type if none is named.

    Raises Malformed. Whose answer it is, the caller knows by the correlation id, the frame's first four bytes.
    """
    position = CORRELATION_BYTES
    if APIS[api_key].is_flexible(version) and api_key != API_VERSIONS:
        try:
            position = skip_tags(frame, position)
        except IndexError as problem:
            raise Malformed("the header of a response is cut short") from problem
    response = decode(_response_type(api_key, version), frame, position)
    return convert(response, target or _response_type(api_key, APIS[api_key].highest))
