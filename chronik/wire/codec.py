"""Whole messages: a request's body to its handler's type, and a handler's response to a frame."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer

from chronik.core.types import Buffer
from chronik.wire.framing import response_head
from chronik.wire.lift import convert
from chronik.wire.reader import decode


@cache
def _request_type(api_key: int, version: int) -> Any:
    return load_request_schema(api_key, version)


@cache
def _response_type(api_key: int, version: int) -> Any:
    return load_response_schema(api_key, version)


def decode_request(api_key: int, version: int, frame: Buffer, position: int, target: type) -> Any:
    """The request as the type its handler takes. Raises Malformed."""
    return convert(decode(_request_type(api_key, version), frame, position), target)


def encode_response(api_key: int, version: int, correlation_id: int, response: Any) -> bytes:
    """A frame with the handler's response in the version the client asked for."""
    response_type = _response_type(api_key, version)
    out = io.BytesIO()
    out.write(b"\x00\x00\x00\x00")
    out.write(response_head(api_key, version, correlation_id))
    entity_writer(response_type)(out, convert(response, response_type))
    frame = out.getbuffer()
    frame[0:4] = (len(frame) - 4).to_bytes(4, "big")
    return bytes(frame)
