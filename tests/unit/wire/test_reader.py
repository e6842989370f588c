"""Our reader against kio's own, and against bytes that lie."""

from __future__ import annotations

import datetime
import io
import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.create_topics.v4.request import CreateTopicsRequest as ClassicCreate
from kio.schema.create_topics.v7.request import CreateTopicsRequest as FlexibleCreate
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.heartbeat.v3.request import HeartbeatRequest as ClassicHeartbeat
from kio.schema.heartbeat.v4.request import HeartbeatRequest as FlexibleHeartbeat
from kio.schema.metadata.v0.request import MetadataRequest as MetadataV0
from kio.schema.metadata.v1.request import MetadataRequest as MetadataV1
from kio.schema.metadata.v13.request import MetadataRequest as MetadataV13
from kio.schema.offset_fetch.v1.request import OffsetFetchRequest as OffsetFetchV1

from chronik.core.records.schema import write_uvarint
from chronik.wire.errors import Malformed
from chronik.wire.reader import ARRAY_ITEMS_MAX, decode, read_uvarint, skip_tags
from tests.unit.wire.messages import (
    SPARSE,
    SPOKEN,
    SPOKEN_NAMES,
    VARIANTS,
    filled,
    read,
    request_type,
    response_type,
    write,
)


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_every_request_reads_as_kio_reads_it(api_key: int, version: int) -> None:
    for variant in VARIANTS:
        request = filled(request_type(api_key, version), variant)
        content = write(request)

        assert decode(type(request), content, 0) == read(type(request), content) == request
        assert decode(type(request), memoryview(b"head" + content), 4) == request


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_a_request_cut_anywhere_is_malformed_or_still_a_request(api_key: int, version: int) -> None:
    """Behind a cut there may be only what has a default (tagged fields at the end are not one of those)."""
    content = write(filled(request_type(api_key, version), "full"))

    for end in range(len(content)):
        with pytest.raises(Malformed):
            decode(request_type(api_key, version), content[:end], 0)


@settings(max_examples=500)
@given(spoken=st.sampled_from(SPOKEN), content=st.binary(max_size=200))
def test_random_bytes_are_a_request_or_malformed(spoken: tuple[int, int], content: bytes) -> None:
    expect_request_or_malformed(request_type(*spoken), content)


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_a_request_with_bytes_changed_is_a_request_or_malformed(api_key: int, version: int) -> None:
    content = write(filled(request_type(api_key, version), "full")) or b"\x00"  # ApiVersions 0-2 has no fields
    dice = random.Random(f"{api_key} {version}")

    for _ in range(30):
        changed = bytearray(content)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        expect_request_or_malformed(request_type(api_key, version), bytes(changed))


def expect_request_or_malformed(message_type: Any, content: bytes) -> None:
    try:
        message = decode(message_type, content, 0)
    except Malformed:
        return
    assert isinstance(message, message_type)


# --- lengths that lie


def uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


LIES = [
    ("a classic array of 2^31 - 1", ClassicCreate, struct.pack(">i", 2**31 - 1)),
    ("a classic array of -2", ClassicCreate, struct.pack(">i", -2)),
    ("a flexible array of 2^32 - 2", FlexibleCreate, uvarint(2**32 - 1)),
    ("a flexible array of 2^31", FlexibleCreate, uvarint(2**31 + 1) + b"\x00" * 5),
    ("a null array where none may be", FlexibleCreate, uvarint(0)),
    ("a classic string of 32,767", ClassicHeartbeat, struct.pack(">h", 32_767) + b"abc"),
    ("a classic string of -1 where none may be null", ClassicHeartbeat, struct.pack(">h", -1)),
    ("a classic string of -300", ClassicHeartbeat, struct.pack(">h", -300)),
    ("a flexible string of 2^31", FlexibleHeartbeat, uvarint(2**31 + 1) + b"abc"),
    ("a flexible string that is null", FlexibleHeartbeat, b"\x00"),
    ("a string that is no utf-8", FlexibleHeartbeat, b"\x03\xff\xfe"),
    ("a varint without an end", FlexibleHeartbeat, b"\xff" * 12),
    ("nothing at all", FlexibleHeartbeat, b""),
]


REST = b"\x00\x00\x00\x01\x00\x01m"  # of a classic heartbeat: generation, member, then no instance
NULLS = [
    ("classic string", ClassicHeartbeat, struct.pack(">h", -1) + REST + b"\xff\xff"),
    ("classic string below -1", ClassicHeartbeat, struct.pack(">h", -2) + REST + b"\xff\xff"),
    ("flexible string", FlexibleHeartbeat, b"\x00" + b"\x00\x00\x00\x01" + b"\x02m" + b"\x00" + b"\x00"),
    ("classic array", ClassicCreate, struct.pack(">i", -1) + struct.pack(">i?", 1000, False)),
    ("flexible array", FlexibleCreate, b"\x00" + struct.pack(">i?", 1000, False) + b"\x00"),
]


@pytest.mark.parametrize(("what", "message_type", "content"), NULLS, ids=[null[0] for null in NULLS])
def test_a_null_where_none_may_be_is_malformed_though_all_else_is_well(
    what: str, message_type: type, content: bytes
) -> None:
    with pytest.raises(Malformed, match="null"):
        decode(message_type, content, 0)


@pytest.mark.parametrize(("what", "message_type", "content"), LIES, ids=[lie[0] for lie in LIES])
def test_a_length_that_lies_is_malformed_and_takes_no_memory(what: str, message_type: type, content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            decode(message_type, content, 0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 1_000_000


def test_a_string_at_the_end_of_a_request_that_reaches_past_it_is_malformed() -> None:
    """Nothing is read behind it that could be found missing."""
    content = struct.pack(">h", 1) + b"g" + REST + struct.pack(">h", 300) + b"abc"

    with pytest.raises(Malformed, match="300 bytes"):
        decode(ClassicHeartbeat, content, 0)


def test_an_array_of_more_than_a_million_is_refused_even_when_its_bytes_are_there() -> None:
    content = struct.pack(">i", ARRAY_ITEMS_MAX + 1) + bytes(2 * (ARRAY_ITEMS_MAX + 1))

    with pytest.raises(Malformed, match="array"):
        decode(MetadataV0, content, 0)


def test_many_small_arrays_together_may_not_have_more_than_a_million_elements() -> None:
    """OffsetFetch: topics with partition numbers; every array for itself is small enough."""
    topic = struct.pack(">h", 1) + b"t" + struct.pack(">i", 1000) + bytes(4 * 1000)
    group = struct.pack(">h", 1) + b"g"

    assert len(decode(OffsetFetchV1, group + struct.pack(">i", 999) + topic * 999, 0).topics) == 999
    with pytest.raises(Malformed, match="elements in its arrays"):
        decode(OffsetFetchV1, group + struct.pack(">i", 1000) + topic * 1000, 0)


def test_a_null_array_is_null_where_it_may_be_and_an_empty_one_is_not() -> None:
    assert decode(MetadataV1, struct.pack(">i", -1), 0).topics is None
    assert decode(MetadataV1, struct.pack(">i", 0), 0).topics == ()
    assert decode(MetadataV13, b"\x00\x01\x00\x00", 0).topics is None
    assert decode(MetadataV13, b"\x01\x01\x00\x00", 0).topics == ()


# --- tagged fields


def test_tagged_fields_nobody_knows_are_passed_over() -> None:
    request = filled(FlexibleHeartbeat, "full")
    unknown = uvarint(2) + uvarint(100) + uvarint(3) + b"abc" + uvarint(7000) + uvarint(0)
    content = write(request)[:-1] + unknown

    assert decode(FlexibleHeartbeat, content, 0) == request


@pytest.mark.parametrize(
    "tags",
    [uvarint(1) + uvarint(5) + uvarint(1000), uvarint(2**31), uvarint(1), uvarint(1) + uvarint(5) + b"\xff" * 6],
    ids=["reaches past the end", "too many", "cut short", "endless varint"],
)
def test_tagged_fields_that_lie_are_malformed(tags: bytes) -> None:
    content = write(filled(FlexibleHeartbeat, "full"))[:-1] + tags

    with pytest.raises(Malformed):
        decode(FlexibleHeartbeat, content, 0)
    with pytest.raises((Malformed, IndexError)):
        skip_tags(tags, 0)


def test_a_tagged_field_that_needs_more_bytes_than_it_says_is_malformed() -> None:
    told = filled(response_type(18, 4), SPARSE)
    content = bytearray(write(told))
    epoch = content.index(bytes((1, 8)))  # tag 1, 8 bytes: the epoch of the finalized features
    content[epoch + 1] = 7

    with pytest.raises(Malformed, match="a tagged field of 7 bytes that needs 8"):
        decode(response_type(18, 4), bytes(content), 0)


def test_more_tagged_fields_than_there_are_bytes_for_are_malformed_at_once() -> None:
    content = write(filled(request_type(12, 4), SPARSE))[:-1] + b"\xff\xff\xff\xff\x0f" + b"\x00" * 20

    with pytest.raises(Malformed, match="4294967295 tagged fields in 20 bytes"):
        decode(request_type(12, 4), content, 0)
    with pytest.raises(Malformed, match="3 tagged fields in 5 bytes"):
        skip_tags(b"\x03" + b"\x09\x00" * 2 + b"\x09", 0)


def test_skipping_tags_ends_where_the_fields_end() -> None:
    tags = uvarint(2) + uvarint(0) + uvarint(3) + b"abc" + uvarint(9) + uvarint(0)

    assert skip_tags(tags + b"rest", 0) == len(tags)
    assert skip_tags(b"\x00rest", 0) == 1


def test_a_nullable_message_has_a_byte_before_it() -> None:
    """KIP-893: DescribeTopicPartitions' cursor."""
    with_cursor = filled(DescribeTopicPartitionsRequest, "full")
    without = filled(DescribeTopicPartitionsRequest, "null")

    assert decode(DescribeTopicPartitionsRequest, write(with_cursor), 0).cursor == with_cursor.cursor is not None
    assert decode(DescribeTopicPartitionsRequest, write(without), 0).cursor is None


# --- varints


@given(value=st.integers(0, 2**35 - 1))
def test_a_varint_comes_back(value: int) -> None:
    content = uvarint(value)

    assert read_uvarint(content, 0) == (value, len(content))


def test_a_varint_of_six_bytes_is_malformed() -> None:
    with pytest.raises(Malformed):
        read_uvarint(io.BytesIO(b"\x80\x80\x80\x80\x80\x01").getbuffer(), 0)


@pytest.mark.parametrize("ms", [2**63 - 1, -(2**63)])
def test_a_duration_of_more_than_a_million_years_is_read_as_a_very_long_one(ms: int) -> None:
    commit = filled(request_type(8, 2), SPARSE)
    content = write(commit)
    sent = content.replace(
        struct.pack(">q", commit.retention_time // datetime.timedelta(milliseconds=1)), struct.pack(">q", ms)
    )
    assert sent != content
    read_years = decode(request_type(8, 2), sent, 0).retention_time.days // 365
    assert abs(read_years) > 10_000
    assert (read_years < 0) == (ms < 0)
