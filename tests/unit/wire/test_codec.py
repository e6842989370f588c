"""Whole messages: a request's bytes to its handler's type, a handler's response to a frame."""

from __future__ import annotations

import struct

import pytest

from chronik.api import api_versions, metadata
from chronik.core.errors import Code
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.errors import Malformed
from chronik.wire.versions import API_VERSIONS
from tests.unit.wire.messages import filled, read, request_type, response_type, write

METADATA = 3


@pytest.mark.parametrize("version", range(14))
def test_a_request_of_any_version_comes_to_its_handler_in_one_type(version: int) -> None:
    content = write(filled(request_type(METADATA, version), "full"))

    request = decode_request(METADATA, version, b"head" + content, 4, metadata.REQUEST)

    assert isinstance(request, metadata.REQUEST)


def test_a_request_that_is_none_is_malformed() -> None:
    with pytest.raises(Malformed):
        decode_request(METADATA, 9, b"\xff\xff", 0, metadata.REQUEST)


@pytest.mark.parametrize("version", range(5))
def test_a_response_is_a_frame_with_its_size_and_the_number_of_its_request(version: int) -> None:
    frame = encode_response(API_VERSIONS, version, 2**31 - 1, api_versions.answer(Code.NONE))

    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 2**31 - 1)
    response = read(response_type(API_VERSIONS, version), frame[8:])
    assert response.error_code == 0
    assert (0, 0, 13) in [(api.api_key, api.min_version, api.max_version) for api in response.api_keys]


@pytest.mark.parametrize("version", range(14))
def test_the_header_of_a_flexible_response_has_its_tags(version: int) -> None:
    response = filled(response_type(METADATA, version), "sparse")

    frame = encode_response(METADATA, version, 5, response)

    head_bytes = 5 if version >= 9 else 4
    assert read(response_type(METADATA, version), frame[4 + head_bytes :]) == response
