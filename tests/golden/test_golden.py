"""Golden frames: one request and one response of every API and version we answer, byte for byte.

The frames in `*.json` were made by kio (the answers of produce and fetch by us, which tests/unit/wire holds against
kio). A new kio, or a change of ours, that alters a byte is seen here as a difference. To write them anew:
CHRONIK_GOLDEN=write.
"""

from __future__ import annotations

import json
import os
import pathlib
import struct
import uuid
from functools import cache
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as ClassicHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader

from chronik.api.table import DIRECT, module_of
from chronik.core.errors import Code, RecordError
from chronik.wire import fetch, follower_fetch, forwarded_produce, produce
from chronik.wire.codec import decode_request, decode_response, encode_request, encode_response
from chronik.wire.fetch import FetchAnswer
from chronik.wire.framing import read_header
from chronik.wire.lift import convert
from chronik.wire.produce import PartitionAnswer
from chronik.wire.reader import decode
from chronik.wire.versions import APIS, FETCH, PRODUCE
from tests.unit.wire.messages import SPOKEN, SPOKEN_NAMES, filled, request_type, response_type, write

HERE = pathlib.Path(__file__).parent
CORRELATION_ID = 0x01020304
EACH = pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
HANDLED = pytest.mark.parametrize(
    ("api_key", "version"),
    [spoken for spoken in SPOKEN if spoken[0] not in DIRECT],
    ids=[n for n in SPOKEN_NAMES if n.split("-")[0] not in ("produce", "fetch")],
)


@cache
def golden(api_key: int) -> dict[str, str]:
    """What is written in the file of this API; written anew first when that is asked for."""
    path = HERE / f"{APIS[api_key].name}.json"
    if os.environ.get("CHRONIK_GOLDEN") == "write":
        frames = {}
        for key, version in SPOKEN:
            if key == api_key:
                frames[f"v{version} request"] = request_frame(key, version).hex()
                frames[f"v{version} response"] = response_frame(key, version).hex()
        path.write_text(json.dumps(frames, indent=0) + "\n")
    content: dict[str, str] = json.loads(path.read_text())
    return content


def frame_of(head: Any, body: Any) -> bytes:
    content = write(head) + (body if isinstance(body, bytes) else write(body))
    return struct.pack(">i", len(content)) + content


def request_frame(api_key: int, version: int) -> bytes:
    header_type: Any = FlexibleHeader if APIS[api_key].is_flexible(version) else ClassicHeader
    head = header_type(
        request_api_key=api_key, request_api_version=version, correlation_id=CORRELATION_ID, client_id="golden"
    )
    return frame_of(head, filled(request_type(api_key, version), "full"))


def response_frame(api_key: int, version: int) -> bytes:
    if api_key in DIRECT:
        return direct_response(api_key, version)
    kind = response_type(api_key, version)
    return frame_of(kind.__header_schema__(correlation_id=CORRELATION_ID), filled(kind, "full"))


def direct_response(api_key: int, version: int) -> bytes:
    topic: str | bytes = uuid.UUID(int=5).bytes if version >= 13 else "topic"
    if api_key == PRODUCE:
        named = (RecordError(3, "no key"), RecordError(5, None))
        bad = PartitionAnswer(1, Code.INVALID_RECORD, -1, -1, -1, "no key", None, named)
        answers = [PartitionAnswer(0, 0, 100, -1, 7), bad]
        return produce.encode(version, CORRELATION_ID, [(topic, answers)])
    given = [FetchAnswer(topic, 0, 0, 10, 9, 1, b"records"), FetchAnswer(topic, 1, Code.OFFSET_OUT_OF_RANGE, 3, 3, 0)]
    return b"".join(bytes(buffer) for buffer in fetch.encode(version, CORRELATION_ID, 0, 77, given))


@EACH
def test_requests_and_responses_are_the_bytes_they_were(api_key: int, version: int) -> None:
    frames = golden(api_key)

    assert request_frame(api_key, version).hex() == frames[f"v{version} request"]
    assert response_frame(api_key, version).hex() == frames[f"v{version} response"]


@EACH
def test_a_golden_request_is_read_as_what_it_was_made_of(api_key: int, version: int) -> None:
    frame = bytes.fromhex(golden(api_key)[f"v{version} request"])[4:]

    header = read_header(frame)

    assert (header.api_key, header.version, header.correlation_id, header.client_id) == (
        api_key,
        version,
        CORRELATION_ID,
        "golden",
    )
    assert decode(request_type(api_key, version), frame, header.body) == filled(request_type(api_key, version), "full")


@HANDLED
def test_a_golden_request_reaches_its_handler_and_a_golden_response_is_what_we_send(api_key: int, version: int) -> None:
    frames, module = golden(api_key), module_of(api_key)
    frame = bytes.fromhex(frames[f"v{version} request"])[4:]

    request = decode_request(api_key, version, frame, read_header(frame).body, module.REQUEST)
    response = convert(filled(response_type(api_key, version), "full"), module.RESPONSE)

    assert isinstance(request, module.REQUEST)
    assert encode_response(api_key, version, CORRELATION_ID, response).hex() == frames[f"v{version} response"]


@EACH
def test_what_we_ask_of_other_nodes_are_golden_requests(api_key: int, version: int) -> None:
    """What we ask of other nodes are golden requests and we read their golden responses."""
    frames = golden(api_key)
    request = filled(request_type(api_key, version), "full")

    sent = encode_request(api_key, version, CORRELATION_ID, "golden", request)
    response = decode_response(
        api_key, version, bytes.fromhex(frames[f"v{version} response"])[4:], response_type(api_key, version)
    )

    assert sent.hex() == frames[f"v{version} request"]
    if api_key not in DIRECT:
        assert response == filled(response_type(api_key, version), "full")


@pytest.mark.parametrize("version", [version for key, version in SPOKEN if key == PRODUCE])
def test_a_produce_request_that_is_passed_on_and_its_answer_are_golden(version: int) -> None:
    frames = golden(PRODUCE)
    frame = bytes.fromhex(frames[f"v{version} request"])[4:]
    request = produce.parse(memoryview(frame), read_header(frame).body, version)

    passed_on = b"".join(forwarded_produce.encode(version, CORRELATION_ID, "golden", request))
    answer = forwarded_produce.parse(memoryview(bytes.fromhex(frames[f"v{version} response"]))[4:], version)

    assert passed_on == frame
    assert produce.encode(version, CORRELATION_ID, *answer).hex() == frames[f"v{version} response"]


@pytest.mark.parametrize("version", [version for key, version in SPOKEN if key == FETCH and version >= 13])
def test_a_follower_reads_golden_answers(version: int) -> None:
    frame = bytes.fromhex(golden(FETCH)[f"v{version} response"])[4:]

    fetched = follower_fetch.parse(memoryview(frame))

    assert (fetched.error, fetched.session_id) == (Code.NONE, 77)
    assert [(part.partition, part.error, part.high_watermark, bytes(part.records)) for part in fetched.partitions] == [
        (0, Code.NONE, 10, b"records"),
        (1, Code.OFFSET_OUT_OF_RANGE, 3, b""),
    ]


def test_no_golden_frames_are_left_of_what_we_no_longer_answer() -> None:
    for api in APIS.values():
        versions = range(api.supported, api.highest + 1)
        expected = {f"v{version} {kind}" for version in versions for kind in ("request", "response")}
        assert set(golden(api.key)) == expected
    assert {path.name for path in HERE.glob("*.json")} == {f"{api.name}.json" for api in APIS.values()}
