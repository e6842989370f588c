"""The codec of machine records: classic and flexible, and nothing else is believed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.records.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    STRING,
    UUID,
    Schema,
    array_of,
    field_of,
    nullable,
    read_uvarint,
    write_uvarint,
)


@dataclass(frozen=True, slots=True)
class Part:
    number: int = field_of(INT32)
    name: str = field_of(STRING)


CLASSIC_PART, FLEXIBLE_PART = Schema(Part, flexible=False), Schema(Part, flexible=True)


@dataclass(frozen=True, slots=True)
class Classic:
    small: int = field_of(INT8)
    size: int = field_of(INT16)
    flag: bool = field_of(BOOL)
    name: str | None = field_of(NULLABLE_STRING)
    content: bytes | None = field_of(NULLABLE_BYTES)
    parts: tuple[Part, ...] = field_of(array_of(CLASSIC_PART))
    numbers: tuple[int, ...] | None = field_of(array_of(INT64, nullable=True))


@dataclass(frozen=True, slots=True)
class Flexible:
    topic_id: bytes = field_of(UUID)
    name: str = field_of(STRING)
    note: str | None = field_of(NULLABLE_STRING)
    content: bytes = field_of(BYTES)
    parts: tuple[Part, ...] = field_of(array_of(FLEXIBLE_PART))
    rare: int = field_of(INT64, tag=3, default=-1)
    rarer: tuple[int, ...] | None = field_of(array_of(INT32, nullable=True), tag=0, default=None)


CLASSIC, FLEXIBLE = Schema(Classic, flexible=False), Schema(Flexible, flexible=True)

TEXT, CONTENT = st.text(max_size=20), st.binary(max_size=20)
INT32S = st.integers(-(2**31), 2**31 - 1)
PARTS = st.lists(st.builds(Part, INT32S, TEXT), max_size=3).map(tuple)
CLASSICS = st.builds(
    Classic, st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1), st.booleans(), st.none() | TEXT,
    st.none() | CONTENT, PARTS, st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(tuple),
)  # fmt: skip
FLEXIBLES = st.builds(
    Flexible, st.binary(min_size=16, max_size=16), TEXT, st.none() | TEXT, CONTENT, PARTS,
    st.integers(-(2**63), 2**63 - 1), st.none() | st.lists(INT32S, max_size=3).map(tuple),
)  # fmt: skip


@given(CLASSICS)
def test_a_classic_record_comes_back(record: Classic) -> None:
    assert CLASSIC.decode(CLASSIC.encode(record)) == record


@given(FLEXIBLES)
def test_a_flexible_record_comes_back(record: Flexible) -> None:
    assert FLEXIBLE.decode(b"xx" + FLEXIBLE.encode(record), 2) == record


def test_classic_lengths_are_fixed_and_null_is_minus_one() -> None:
    record = Classic(1, 2, True, None, b"ab", (Part(7, "n"),), None)
    expected = "01 0002 01 ffff 00000002 6162 00000001 00000007 0001 6e ffffffff"
    assert CLASSIC.encode(record) == bytes.fromhex(expected)


def test_flexible_lengths_are_one_more_and_defaults_are_left_out() -> None:
    record = Flexible(bytes(16), "n", None, b"ab", ())
    assert FLEXIBLE.encode(record) == bytes(16) + bytes.fromhex("02 6e 00 03 6162 01 00")


def test_tagged_fields_stand_in_the_order_of_their_tags() -> None:
    content = FLEXIBLE.encode(Flexible(bytes(16), "", None, b"", (), rare=5, rarer=(1,)))
    assert content[20:] == bytes.fromhex("02 00 05 02 00000001 03 08 0000000000000005")


def test_a_nested_record_that_may_be_null_says_by_a_byte_whether_it_is() -> None:
    kind = nullable(FLEXIBLE_PART)
    for value, content in ((None, "ff"), (Part(7, "n"), "01 00000007 02 6e 00")):
        out = bytearray()
        kind.write(out, value, True)
        assert out == bytes.fromhex(content)
        assert kind.read(bytes(out), 0, True) == (value, len(out))


def test_a_tag_of_a_newer_version_is_passed_over() -> None:
    content = FLEXIBLE.encode(Flexible(bytes(16), "n", None, b"", ()))
    newer = content[:-1] + bytes.fromhex("01 09 03 aabbcc")
    assert FLEXIBLE.decode(newer) == Flexible(bytes(16), "n", None, b"", ())


@given(FLEXIBLES, st.integers(0, 500))
def test_a_record_cut_short_is_corrupt(record: Flexible, size: int) -> None:
    content = FLEXIBLE.encode(record)
    with pytest.raises(Corrupt):
        FLEXIBLE.decode(content[: size % len(content)])


@given(st.binary(max_size=60))
def test_no_bytes_make_decoding_fail_in_another_way(content: bytes) -> None:
    for schema in (CLASSIC, FLEXIBLE):
        with contextlib.suppress(Corrupt):
            schema.decode(content)


def test_an_array_larger_than_the_bytes_takes_no_memory() -> None:
    content = bytes.fromhex("01 0002 01 ffff ffffffff 7fffffff")
    with pytest.raises(Corrupt, match="an array of 2147483647"):
        CLASSIC.decode(content)


def test_null_where_none_may_be_is_a_bug_to_write_and_corrupt_to_read() -> None:
    with pytest.raises(ValueError, match="null"):
        FLEXIBLE.encode(Flexible(bytes(16), None, None, b"", ()))  # type: ignore[arg-type]
    with pytest.raises(Corrupt, match="null"):
        FLEXIBLE.decode(bytes(16) + b"\0")


@given(st.integers(0, 2**64 - 1))
def test_unsigned_varints_come_back(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert read_uvarint(out, 0) == (value, len(out))


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="more than ten"):
        read_uvarint(b"\xff" * 20, 0)
