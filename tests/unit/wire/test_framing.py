"""Requests in a stream of bytes, however the stream is cut."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as ClassicHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader

from chronik.wire.errors import ImpossibleSize, Malformed
from chronik.wire.framing import LARGE_BYTES, SHARED_BYTES, SIZE_BYTES, Inbox, read_header, response_head
from chronik.wire.versions import API_VERSIONS, APIS
from tests.unit.wire.messages import SPOKEN, SPOKEN_NAMES, response_type, write

LIMIT_BYTES = 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(inbox: Inbox, content: bytes, part_bytes: int) -> list[bytes]:
    """What comes out when `content` comes in by parts of that size, or smaller when there is less space."""
    taken: list[bytes] = []
    view = memoryview(content)
    while view:
        space = inbox.space()
        count = min(part_bytes, len(space), len(view))
        assert count, "the inbox has no space"
        space[:count] = view[:count]
        taken += [bytes(frame) for frame in inbox.filled(count)]
        view = view[count:]
    return taken


BODIES = [b"first", b"", b"third request", bytes(range(256))]


def test_requests_cut_at_every_byte_come_out_whole() -> None:
    stream = framed(*BODIES)

    for cut in range(1, len(stream)):
        inbox = Inbox(LIMIT_BYTES)
        taken = feed(inbox, stream[:cut], cut) + feed(inbox, stream[cut:], len(stream))
        assert taken == BODIES


@pytest.mark.parametrize("part_bytes", [1, 2, 3, 5, 1000, 100_000])
def test_requests_come_out_whole_whatever_the_size_of_the_parts(part_bytes: int) -> None:
    assert feed(Inbox(LIMIT_BYTES), framed(*BODIES), part_bytes) == BODIES


def test_several_requests_in_one_read_come_out_in_order() -> None:
    assert feed(Inbox(LIMIT_BYTES), framed(*BODIES), 10_000) == BODIES


EDGES = [SHARED_BYTES - SIZE_BYTES + delta for delta in (-1, 0, 1)] + [
    SHARED_BYTES,
    SHARED_BYTES + 1,
    300_000,
    LIMIT_BYTES,
]


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("part_bytes", [1000, 65_536, 10_000_000])
def test_a_large_request_comes_out_whole_between_small_ones(size: int, part_bytes: int) -> None:
    large = bytes(number % 251 for number in range(size))

    assert feed(Inbox(LIMIT_BYTES), framed(b"before", large, b"after"), part_bytes) == [b"before", large, b"after"]


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 90_000), max_size=6), part_bytes=st.integers(1, 80_000))
def test_any_requests_in_any_parts_come_out_whole(sizes: list[int], part_bytes: int) -> None:
    bodies = [bytes([number % 256]) * size for number, size in enumerate(sizes)]

    assert feed(Inbox(LIMIT_BYTES), framed(*bodies), max(part_bytes, sum(sizes) // 500)) == bodies


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT_BYTES + 1, 2**31 - 1])
def test_an_impossible_size_is_malformed_and_takes_no_memory(size: int) -> None:
    inbox = Inbox(LIMIT_BYTES)

    with pytest.raises(Malformed, match=r"socket\.request\.max\.bytes"):
        feed(inbox, struct.pack(">i", size), 4)


def test_a_large_request_gets_memory_only_as_it_comes() -> None:
    inbox = Inbox(100_000_000)
    tracemalloc.start()
    try:
        assert feed(inbox, struct.pack(">i", 90_000_000) + bytes(1000), 100) == []
        promised_bytes = tracemalloc.get_traced_memory()[1]
        assert feed(inbox, bytes(1_000_000), 1000) == []
        sent_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert promised_bytes < 1_000_000
    assert sent_bytes < 5_000_000


def test_a_promise_of_much_takes_little_memory_until_the_bytes_come() -> None:
    inbox = Inbox(100_000_000)

    feed(inbox, struct.pack(">i", 90_000_000) + bytes(10), 100)

    assert len(inbox.space()) <= LARGE_BYTES


def test_requests_before_an_impossible_size_are_still_given_out() -> None:
    inbox = Inbox(LIMIT_BYTES)
    content = framed(b"good") + struct.pack(">i", -1)
    inbox.space()[: len(content)] = content

    with pytest.raises(ImpossibleSize) as caught:
        inbox.filled(len(content))

    assert [bytes(frame) for frame in caught.value.frames] == [b"good"]


def test_a_request_stays_as_it_is_when_the_next_one_is_read() -> None:
    """A batch may still wait for its sync while the transport writes into the shared buffer."""
    inbox = Inbox(LIMIT_BYTES)
    first_frame = framed(b"first")
    inbox.space()[: len(first_frame)] = first_frame
    (first,) = inbox.filled(len(first_frame))

    feed(inbox, framed(b"other"), 100)

    assert bytes(first) == b"first"


def test_what_is_given_out_can_be_written_to() -> None:
    """The log stamps a batch where it lies."""
    inbox = Inbox(LIMIT_BYTES)
    for body in (b"small", bytes(SHARED_BYTES)):
        content = framed(body)
        view = memoryview(content)
        frames: list[memoryview] = []
        while view:
            space = inbox.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            frames += inbox.filled(count)
            view = view[count:]
        frames[0][0] = 7
        assert frames[0][0] == 7


# --- request headers


def header_bytes(api_key: int, version: int, client_id: str | None) -> bytes:
    flexible = APIS[api_key].is_flexible(version)
    header_type: Any = FlexibleHeader if flexible else ClassicHeader
    return write(
        header_type(request_api_key=api_key, request_api_version=version, correlation_id=77, client_id=client_id)
    )


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_the_header_is_read_as_kio_writes_it(api_key: int, version: int) -> None:
    for client_id in ("my-client", "", None, "grüße"):
        content = header_bytes(api_key, version, client_id)

        header = read_header(content + b"body")

        assert header == (api_key, version, 77, client_id or "", len(content))


def test_tagged_fields_in_the_header_are_passed_over() -> None:
    content = header_bytes(API_VERSIONS, 3, "c")[:-1] + b"\x01\x05\x03abc"

    assert read_header(content + b"body").body == len(content)


def test_the_header_of_an_unknown_version_is_read_as_far_as_all_versions_agree() -> None:
    """ApiVersions 99: what stands behind the client id is not known, who asks is."""
    header = read_header(struct.pack(">hhih", API_VERSIONS, 99, 5, 2) + b"me" + b"\xff\xff\xff")

    assert (header.version, header.correlation_id, header.client_id) == (99, 5, "me")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        struct.pack(">hhih", 18, 0, 1, 5) + b"abc",
        struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 18, 3, 1, -1),
    ],
    ids=["empty", "one byte", "client id cut short", "client id no utf-8", "tagged fields missing"],
)
def test_a_header_that_is_none_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        read_header(content)


@given(content=st.binary(max_size=60))
def test_random_bytes_are_a_header_or_malformed(content: bytes) -> None:
    try:
        header = read_header(content)
    except Malformed:
        return
    assert header.body <= len(content)


def test_more_client_ids_than_are_kept_are_still_read() -> None:
    for number in range(1500):
        raw = f"client-{number}".encode()
        assert read_header(struct.pack(">hhih", 3, 0, 1, len(raw)) + raw).client_id == raw.decode()


# --- response headers


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_the_response_header_is_the_one_kio_names(api_key: int, version: int) -> None:
    schema = response_type(api_key, version).__header_schema__

    assert response_head(api_key, version, 99) == write(schema(correlation_id=99))


@pytest.mark.parametrize("version", range(5))
def test_the_response_header_of_api_versions_is_always_the_old_one(version: int) -> None:
    assert response_head(API_VERSIONS, version, -2) == struct.pack(">i", -2)
