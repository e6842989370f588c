"""Avro values to rows: a schema as columns of a table, and bytes to the Python values that Arrow takes.

Spark's own Avro comes from Maven only. This is the part of Avro 1.12 that a table can hold: no recursive types, and
unions only with null. One value a call: good for some 100,000 records a second and core, not for millions.
"""

from __future__ import annotations

import decimal
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import types as T

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""The value that begins at a place in the bytes, and the place behind it."""
_DECIMAL_DIGITS_MAX = 38
_CONFLUENT_BYTES = 5
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class BadSchema(ValueError):
    """Not an Avro schema, or one that no table can hold."""


class MalformedAvro(ValueError):
    """Bytes that are no value of the schema; the message says where."""


@dataclass(frozen=True)
class AvroType:
    """A record's schema, as text: what it means is worked out where it is needed, in each of Spark's processes."""

    text: str

    def columns(self) -> T.StructType:
        kind = _Reader().node(json.loads(self.text))[0]
        if not isinstance(kind, T.StructType):
            raise BadSchema("the schema is not one of a record: a table needs names for its columns")
        return kind

    def decoder(self, schema_id: int | None = None) -> Callable[[bytes], Any]:
        """Bytes to a value. It raises Malformed. With a schema id the bytes begin as Confluent's serializers write."""
        read = _Reader().node(json.loads(self.text))[1]

        def decode(value: bytes) -> Any:
            begin = 0 if schema_id is None else _after_header(value, schema_id)
            try:
                found, end = read(value, begin)
            except (IndexError, struct.error) as problem:
                raise MalformedAvro("Avro ends too early") from problem
            except (UnicodeDecodeError, decimal.DecimalException) as problem:
                raise MalformedAvro(f"Avro: {problem}") from problem
            if end != len(value):
                raise MalformedAvro(f"Avro ends at byte {end} of {len(value)}")
            return found

        return decode


def parse_schema(text: str) -> AvroType:
    """Raises BadSchema."""
    try:
        json.loads(text)
    except ValueError as problem:
        raise BadSchema(f"not JSON: {problem}") from problem
    avro = AvroType(text)
    avro.columns()
    return avro


def _after_header(value: bytes, schema_id: int) -> int:
    if len(value) < _CONFLUENT_BYTES or value[0] != 0:
        raise MalformedAvro("no schema id before the Avro")
    if (found := int.from_bytes(value[1:_CONFLUENT_BYTES], "big")) != schema_id:
        raise MalformedAvro(f"schema id {found}, not {schema_id}")
    return _CONFLUENT_BYTES


class _Reader:
    """Types by name, as a schema names them while it is read from front to back."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[T.DataType, Read] | None] = {}

    def node(self, schema: Any, namespace: str = "") -> tuple[T.DataType, Read]:
        match schema:
            case str() if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            case str():
                return self._reference(schema, namespace)
            case list():
                return self._union(schema, namespace)
            case {"type": "record" | "error"}:
                return self._record(schema, namespace)
            case {"type": "enum", "symbols": [*symbols]}:
                return self._define(schema, namespace, (T.StringType(), _enum(list(map(str, symbols)))))
            case {"type": "fixed", "size": int(size)}:
                kind = _decimal(schema, _fixed(size)) or (T.BinaryType(), _fixed(size))
                return self._define(schema, namespace, kind)
            case {"type": "array", "items": items}:
                element, read = self.node(items, namespace)
                return T.ArrayType(element, True), _blocks(read)
            case {"type": "map", "values": values}:
                kind, read = self.node(values, namespace)
                return T.MapType(T.StringType(), kind, True), _blocks(_pair(read))
            case {"type": "int", "logicalType": "date"}:
                return T.DateType(), _int
            case {"type": "long", "logicalType": "timestamp-millis"}:
                return T.TimestampType(), _millis
            case {"type": "long", "logicalType": "timestamp-micros"}:
                return T.TimestampType(), _long
            case {"type": "bytes"}:
                return _decimal(schema, _bytes) or _PRIMITIVES["bytes"]
            case {"type": inner}:  # an unknown logical type is passed over, as the specification says
                return self.node(inner, namespace)
        raise BadSchema(f"{json.dumps(schema)[:80]} is no Avro type")

    def _record(self, schema: Mapping[str, Any], namespace: str) -> tuple[T.DataType, Read]:
        full = _full_name(schema, namespace)
        self._named[full] = None  # being defined
        inner = full.rpartition(".")[0]
        fields: list[tuple[str, T.DataType, Read]] = []
        try:
            for field in schema["fields"]:
                fields.append((field["name"], *self.node(field["type"], inner)))
        except (KeyError, TypeError) as problem:
            raise BadSchema(f"record {full}: a field without name or type") from problem
        if not fields:
            raise BadSchema(f"record {full} has no fields")
        readers = [(name, read) for name, _, read in fields]

        def read_record(value: bytes, at: int) -> tuple[Any, int]:
            found = {}
            for name, read in readers:
                found[name], at = read(value, at)
            return found, at

        kind = T.StructType([T.StructField(name, type_, True) for name, type_, _ in fields])
        return self._define(schema, namespace, (kind, read_record))

    def _define(
        self, schema: Mapping[str, Any], namespace: str, kind: tuple[T.DataType, Read]
    ) -> tuple[T.DataType, Read]:
        self._named[_full_name(schema, namespace)] = kind
        return kind

    def _reference(self, name: str, namespace: str) -> tuple[T.DataType, Read]:
        for full in (name, f"{namespace}.{name}"):
            if full in self._named:
                known = self._named[full]
                if known is None:
                    raise BadSchema(f"{name} holds itself: no table has such a column")
                return known
        raise BadSchema(f"{name} is no Avro type")

    def _union(self, branches: list[Any], namespace: str) -> tuple[T.DataType, Read]:
        nodes = [None if branch == "null" else self.node(branch, namespace) for branch in branches]
        kinds = [node for node in nodes if node is not None]
        if len(kinds) != 1:
            raise BadSchema(f"a union of {len(kinds)} types besides null: no table has such a column")

        def read_union(value: bytes, at: int) -> tuple[Any, int]:
            branch, at = _long(value, at)
            if not 0 <= branch < len(nodes):
                raise MalformedAvro(f"Avro: branch {branch} of a union of {len(nodes)} at byte {at}")
            node = nodes[branch]
            return (None, at) if node is None else node[1](value, at)

        return kinds[0][0], read_union


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise BadSchema(f"a {schema.get('type')} without a name")
    space = schema.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _long(value: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise MalformedAvro(f"Avro: a number that does not end at byte {at}")
    number = (number >> 1) ^ -(number & 1)
    if not -(1 << 63) <= number < 1 << 63:
        raise MalformedAvro(f"Avro: a number beyond 64 bits at byte {at}")
    return number, at


def _int(value: bytes, at: int) -> tuple[int, int]:
    number, at = _long(value, at)
    if not -(1 << 31) <= number < 1 << 31:
        raise MalformedAvro(f"Avro: {number} is no int, at byte {at}")
    return number, at


def _millis(value: bytes, at: int) -> tuple[int, int]:
    number, at = _long(value, at)
    if abs(number) > (1 << 63) // 1000:
        raise MalformedAvro(f"Avro: {number} ms is beyond all times, at byte {at}")
    return number * 1000, at


def _boolean(value: bytes, at: int) -> tuple[bool, int]:
    if value[at] > 1:
        raise MalformedAvro(f"Avro: neither true nor false at byte {at}")
    return value[at] == 1, at + 1


def _float(value: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(value, at)[0], at + 4


def _double(value: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(value, at)[0], at + 8


def _bytes(value: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(value, at)
    if not 0 <= size <= len(value) - at:
        raise MalformedAvro(f"Avro: {size} bytes at byte {at} of {len(value)}")
    return value[at : at + size], at + size


def _string(value: bytes, at: int) -> tuple[str, int]:
    found, at = _bytes(value, at)
    return found.decode("utf-8"), at


def _null(value: bytes, at: int) -> tuple[None, int]:
    return None, at


def _fixed(size: int) -> Read:
    def read_fixed(value: bytes, at: int) -> tuple[bytes, int]:
        if size > len(value) - at:
            raise MalformedAvro("Avro ends too early")
        return value[at : at + size], at + size

    return read_fixed


def _enum(symbols: list[str]) -> Read:
    def read_enum(value: bytes, at: int) -> tuple[str, int]:
        number, at = _long(value, at)
        if not 0 <= number < len(symbols):
            raise MalformedAvro(f"Avro: symbol {number} of {len(symbols)} at byte {at}")
        return symbols[number], at

    return read_enum


def _blocks(read: Read) -> Read:
    """Items in blocks, each with its count; a negative one is followed by the block's size."""

    def read_blocks(value: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, at = _long(value, at)
            if count == 0:
                return items, at
            if count < 0:
                count, (_, at) = -count, _long(value, at)
            if count > len(value) - at:  # an item has a byte at least, else a short value could ask for any memory
                raise MalformedAvro(f"Avro: {count} items at byte {at} of {len(value)}")
            for _ in range(count):
                item, at = read(value, at)
                items.append(item)

    return read_blocks


def _pair(read: Read) -> Read:
    def read_pair(value: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _string(value, at)
        found, at = read(value, at)
        return (key, found), at

    return read_pair


def _decimal(schema: Mapping[str, Any], read: Read) -> tuple[T.DataType, Read] | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if not 0 <= scale <= precision <= _DECIMAL_DIGITS_MAX or precision == 0:
        raise BadSchema(f"a decimal of {precision} digits, {scale} of them behind the point")
    limit = 10**precision  # by number: Python does not write out an int of thousands of digits

    def read_decimal(value: bytes, at: int) -> tuple[decimal.Decimal, int]:
        found, at = read(value, at)
        unscaled = int.from_bytes(found, "big", signed=True)
        if abs(unscaled) >= limit:
            raise MalformedAvro(f"Avro: a decimal of more than {precision} digits at byte {at}")
        return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=_DECIMAL_DIGITS_MAX)), at

    return T.DecimalType(precision, scale), read_decimal


_PRIMITIVES: Mapping[str, tuple[T.DataType, Read]] = {
    "null": (T.StringType(), _null),
    "boolean": (T.BooleanType(), _boolean),
    "int": (T.IntegerType(), _int),
    "long": (T.LongType(), _long),
    "float": (T.FloatType(), _float),
    "double": (T.DoubleType(), _double),
    "bytes": (T.BinaryType(), _bytes),
    "string": (T.StringType(), _string),
}
