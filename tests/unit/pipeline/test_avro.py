"""Avro schemas as columns, and bytes as values. Against Java's Avro: tests/spark/test_ingest.py."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from chronik.pipeline.values.avro import AvroType, BadSchema, MalformedAvro, parse_schema


def record(*fields: tuple[str, Any]) -> AvroType:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return parse_schema(json.dumps({"type": "record", "name": "Order", "fields": listed}))


def zigzag(number: int) -> bytes:
    """A whole number as Avro writes it."""
    left = (number << 1) ^ (number >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])


A_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
EVERYTHING = record(
    ("id", "long"),
    ("name", ["null", "string"]),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}),
    ("hash", {"type": "fixed", "name": "Hash", "size": 2}),
    ("tags", {"type": "array", "items": "string"}),
    ("counts", {"type": "map", "values": "int"}),
    ("price", A_DECIMAL),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("ok", "boolean"),
    ("half", "double"),
    ("again", "State"),
)
BYTES = (
    b"\x05" b"\x02\x04hi" b"\x02" b"\xab\xcd" b"\x04\x02a\x02b\x00" b"\x01\x06\x02k\x0e\x00" b"\x04\x30\x39"
    b"\xd0\x0f" b"\x02" b"\x01" b"\x00\x00\x00\x00\x00\x00\xe0\x3f" b"\x00"
)  # fmt: skip


def test_every_type_becomes_a_column() -> None:
    assert EVERYTHING.columns().simpleString() == (
        "struct<id:bigint,name:string,state:string,hash:binary,tags:array<string>,counts:map<string,int>,"
        "price:decimal(5,2),at:timestamp,day:date,ok:boolean,half:double,again:string>"
    )


def test_bytes_become_the_values_they_stand_for() -> None:
    assert EVERYTHING.decoder()(BYTES) == {
        "id": -3,
        "name": "hi",
        "state": "OLD",
        "hash": b"\xab\xcd",
        "tags": ["a", "b"],
        "counts": [("k", 7)],
        "price": Decimal("123.45"),
        "at": 1_000_000,
        "day": 1,
        "ok": True,
        "half": 0.5,
        "again": "NEW",
    }


def test_the_schema_id_before_a_value_must_be_the_one_that_was_meant() -> None:
    decode = record(("id", "long")).decoder(schema_id=7)

    assert decode(b"\x00\x00\x00\x00\x07\x02") == {"id": 1}
    with pytest.raises(MalformedAvro, match="schema id 8, not 7"):
        decode(b"\x00\x00\x00\x00\x08\x02")
    with pytest.raises(MalformedAvro, match="no schema id"):
        decode(b"\x02")


@pytest.mark.parametrize(
    ("fields", "value", "words"),
    [
        ([("a", "long")], b"", "ends too early"),
        ([("a", "long")], b"\x02\x02", "ends at byte 1 of 2"),
        ([("a", "long")], b"\xff" * 11, "does not end"),
        ([("a", "int")], b"\x80\x80\x80\x80\x10", "is no int"),
        ([("a", "string")], b"\x10ab", "8 bytes at byte 1 of 3"),
        ([("a", "string")], b"\x04\xff\xfe", "utf-8"),
        ([("a", "double")], b"\x00", "ends too early"),
        ([("a", ["null", "long"])], b"\x08", "branch 4 of a union of 2"),
        ([("a", {"type": "array", "items": "null"})], b"\xfe\xff\xff\xff\x0f\x00", "items at byte"),
        ([("a", "boolean")], b"\x02", "neither true nor false"),
        ([("a", {"type": "int", "logicalType": "date"})], b"\x80\x80\x80\x80\x10", "is no int"),
        ([("a", {"type": "int", "logicalType": "time-millis"})], b"\x80\x80\x80\x80\x10", "is no int"),
        ([("a", {"type": "long", "logicalType": "timestamp-millis"})], zigzag(1 << 62), "beyond all times"),
        ([("a", A_DECIMAL)], b"\x06\x0f\x42\x40", "more than 5 digits"),
        ([("a", A_DECIMAL)], zigzag(2_000) + b"\x7f" * 2_000, "more than 5 digits"),
    ],
)
def test_bytes_of_something_else_are_malformed(fields: list[tuple[str, Any]], value: bytes, words: str) -> None:
    with pytest.raises(MalformedAvro, match=words):
        record(*fields).decoder()(value)


@given(st.binary(max_size=80))
def test_no_bytes_do_more_than_be_malformed(value: bytes) -> None:
    try:
        EVERYTHING.decoder()(value)
    except MalformedAvro:
        return


NUMBERS = [
    *("int", "long"),
    *({"type": "int", "logicalType": name} for name in ("date", "time-millis")),
    *({"type": "long", "logicalType": f"{name}-micros"} for name in ("time", "timestamp", "local-timestamp")),
    {"type": "long", "logicalType": "timestamp-millis"},
]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
@given(st.integers(-(1 << 63), (1 << 63) - 1))
@example(1 << 31)
@example(-(1 << 31) - 1)
@example((1 << 63) // 1000)
@example(-((1 << 63) // 1000))
def test_a_number_is_malformed_or_one_that_arrow_takes(kind: Any, number: int) -> None:
    check_arrow_takes(record(("a", kind)), zigzag(number))


@given(st.binary(max_size=20), st.integers(1, 38), st.data())
def test_a_decimal_is_malformed_or_one_that_arrow_takes(unscaled: bytes, precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}

    check_arrow_takes(record(("a", kind)), zigzag(len(unscaled)) + unscaled)


def check_arrow_takes(avro: AvroType, value: bytes) -> None:
    """Else one bad value would end the task, and the job with it, again and again."""
    try:
        found = avro.decoder()(value)
    except MalformedAvro:
        return
    assert len(pa.array([found], to_arrow_type(avro.columns(), timezone="UTC"))) == 1


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not JSON"),
        ('"long"', "not one of a record"),
        ('{"type": "record", "name": "R", "fields": []}', "has no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}', "union of 2 types"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}', "holds itself"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "lnog"}]}', "lnog is no Avro type"),
        ('{"type": "record", "fields": [{"name": "a", "type": "long"}]}', "without a name"),
        ('{"type": "record", "name": "R", "fields": [{"type": "long"}]}', "a field without name"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": '
            '{"type": "bytes", "logicalType": "decimal", "precision": 0}}]}',
            "a decimal of 0 digits",
        ),
    ],
)
def test_schemas_that_no_table_can_hold_are_refused(schema: str, words: str) -> None:
    with pytest.raises(BadSchema, match=words):
        parse_schema(schema)
