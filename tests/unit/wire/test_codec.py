"""Whole messages: a request's bytes to its handler's type, a handler's response to a frame."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.api import api_versions, metadata
from chronik.core.errors import Code
from chronik.wire.codec import decode_request, decode_response, encode_request, encode_response
from chronik.wire.errors import Malformed
from chronik.wire.framing import read_header
from chronik.wire.lift import convert
from chronik.wire.versions import API_VERSIONS, APIS
from tests.unit.wire.messages import (
    SPOKEN,
    SPOKEN_NAMES,
    all_variants,
    filled,
    read,
    request_type,
    response_type,
    write,
)

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


# --- what we ask of other nodes


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_a_request_we_send_is_one_we_understand_in_every_version(api_key: int, version: int) -> None:
    for _, message in all_variants(request_type(api_key, version)):
        frame = encode_request(api_key, version, -7, "node-ä", message)

        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        header = read_header(frame[4:])
        assert header[:4] == (api_key, version, -7, "node-ä")
        assert read(request_type(api_key, version), frame[4 + header.body :]) == message


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_a_request_is_written_in_the_newest_type_and_sent_in_any_version(api_key: int, version: int) -> None:
    newest = request_type(api_key, APIS[api_key].highest)
    message = convert(filled(request_type(api_key, version), "full"), newest)

    frame = encode_request(api_key, version, 1, "n", message)

    sent = decode_request(api_key, version, frame, 4 + read_header(frame[4:]).body, newest)
    assert convert(sent, request_type(api_key, version)) == convert(message, request_type(api_key, version))


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_a_response_of_another_node_is_read_in_every_version(api_key: int, version: int) -> None:
    for _, message in all_variants(response_type(api_key, version)):
        frame = encode_response(api_key, version, 5, message)[4:]

        assert decode_response(api_key, version, frame, response_type(api_key, version)) == message
        newest = decode_response(api_key, version, memoryview(frame))
        assert isinstance(newest, response_type(api_key, APIS[api_key].highest))
        assert newest == convert(message, type(newest))


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_a_response_cut_short_is_malformed(api_key: int, version: int) -> None:
    frame = encode_response(api_key, version, 5, filled(response_type(api_key, version), "full"))[4:]

    for end in {0, 3, 4, 5, len(frame) // 3, len(frame) // 2, len(frame) - 1}:
        with pytest.raises(Malformed):
            decode_response(api_key, version, frame[:end])


def test_tags_in_the_header_of_a_response_are_passed_over() -> None:
    message = filled(response_type(METADATA, 13), "full")
    frame = encode_response(METADATA, 13, 5, message)[4:]

    assert decode_response(METADATA, 13, frame[:4] + b"\x01\x07\x02ab" + frame[5:]) == message


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
@settings(max_examples=15)
@given(content=st.binary(max_size=100))
def test_random_bytes_are_a_response_or_malformed(api_key: int, version: int, content: bytes) -> None:
    with contextlib.suppress(Malformed):
        decode_response(api_key, version, content)
