"""kio's messages to bytes: whatever a message holds, the bytes are those of kio's own writer."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from chronik.wire.writer import encode_into, write_uvarint
from tests.unit.wire.messages import (
    SPOKEN,
    SPOKEN_NAMES,
    VARIANTS,
    filled,
    request_type,
    response_type,
    write,
)


def encoded(message: Any) -> bytes:
    out = bytearray()
    encode_into(out, message)
    return bytes(out)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_the_bytes_of_every_message_and_version_are_those_of_kio(api_key: int, version: int, variant: str) -> None:
    for kind in (request_type(api_key, version), response_type(api_key, version)):
        message = filled(kind, variant)

        assert encoded(message) == write(message)


@pytest.mark.parametrize(
    ("value", "content"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (2**31, b"\x80\x80\x80\x80\x08")]
)
def test_a_varint_has_seven_bits_a_byte(value: int, content: bytes) -> None:
    out = bytearray()

    write_uvarint(out, value)

    assert out == content


def test_a_null_where_none_may_be_is_not_written() -> None:
    metadata = request_type(18, 3)

    with pytest.raises(TypeError):
        encoded(metadata(client_software_name=None, client_software_version="1"))


def test_a_text_that_is_too_long_for_its_size_is_not_written() -> None:
    heartbeat = request_type(12, 0)

    with pytest.raises(struct.error):
        encoded(heartbeat(group_id="g" * 40_000, generation_id=1, member_id="m"))
