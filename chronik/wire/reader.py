"""Bytes to kio's message types, with every length checked before memory is taken.

kio's own reader is faster but trusts lengths: a compact array that claims 2^32 elements makes it ask for 32 GB
and abort the whole process. So kio gives the types and this module reads them; the two hot requests have
parsers of their own (`produce`, `fetch`).
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
import types
import typing
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from chronik.core.errors import Code
from chronik.core.types import Buffer
from chronik.wire.errors import Malformed

ARRAY_ITEMS_MAX = 1_000_000  # of all arrays of a message together: an element costs far more memory than its bytes
_DURATION_MS_MAX = 10**16

Read: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]


class _Elements:
    """How many array elements the message that is being read may still have. Messages are read one at a time; an
    argument through every reader would be paid by each field of each message (decision 0038)."""

    left = ARRAY_ITEMS_MAX


_elements = _Elements()


def decode(message_type: type, buffer: Buffer, position: int) -> Any:
    """The message of this kio type that starts at `position`. Raises Malformed."""
    _elements.left = ARRAY_ITEMS_MAX
    try:
        return reader_of(message_type)(buffer, position)[0]
    except (struct.error, IndexError, ValueError, OverflowError) as problem:
        raise Malformed(f"{message_type.__name__}: {problem}") from problem


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes (32 bits, as Kafka has them)."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise Malformed("a varint of more than five bytes")


def skip_tags(buffer: Buffer, position: int) -> int:
    """Past a block of tagged fields that are not used here."""
    if not buffer[position]:
        return position + 1
    count, position = read_uvarint(buffer, position)
    _check_tags(count, len(buffer) - position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise Malformed("a tagged field reaches past the end")
    return position


def _check_tags(count: int, bytes_left: int) -> None:
    """A tagged field takes at least two bytes, its number and its size: a longer list is a lie."""
    if 2 * count > bytes_left:
        raise Malformed(f"{count} tagged fields in {bytes_left} bytes")


@cache
def reader_of(message_type: type) -> Read:
    """A reader for a kio type, put together once from its fields."""
    flexible = bool(message_type.__flexible__)  # type: ignore[attr-defined]  # kio gives every type this flag
    hints = typing.get_type_hints(message_type)
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(message_type):
        tag = field.metadata.get("tag")
        kind = field.metadata.get("kafka_type")
        read = _field_reader(hints[field.name], kind, flexible, tagged=tag is not None)
        if tag is None:
            plain.append((field.name, read))
        else:
            tagged[tag] = (field.name, read)
            defaults[field.name] = default_of(field, hints[field.name])

    def read_message(buffer: Buffer, position: int) -> tuple[Any, int]:
        values = dict(defaults)
        for name, read_value in plain:
            values[name], position = read_value(buffer, position)
        if flexible:
            position = _read_tagged(buffer, position, tagged, values)
        return message_type(**values), position

    return read_message


def _read_tagged(buffer: Buffer, position: int, tagged: dict[int, tuple[str, Read]], values: dict[str, Any]) -> int:
    count, position = read_uvarint(buffer, position)
    _check_tags(count, len(buffer) - position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer):
            raise Malformed("a tagged field reaches past the end")
        if tag in tagged:
            name, read_value = tagged[tag]
            values[name], reached = read_value(buffer, position)
            if reached > end:
                raise Malformed(f"a tagged field of {size} bytes that needs {reached - position}")
        position = end
    return position


def default_of(field: dataclasses.Field[Any], hint: Any) -> Any:
    """A field's default: its own, else the zero of its type."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return zero_of(hint, field.metadata.get("kafka_type"))


def zero_of(hint: Any, kind: str | None) -> Any:
    """What stands in for a value that a version does not carry."""
    _, is_array, nested, nullable = shape_of(hint)
    if nullable:
        return None
    if is_array:
        return ()
    if nested is not None:
        hints = typing.get_type_hints(nested)
        return nested(**{f.name: default_of(f, hints[f.name]) for f in dataclasses.fields(nested)})
    return _ZEROS[kind or ""]


_ZEROS: dict[str, Any] = {
    "": None,
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), 0),
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": Code.NONE,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
    "datetime_i64": None,
}


def shape_of(hint: Any) -> tuple[Any, bool, type | None, bool]:
    """(element type, is it an array, its message type if nested, may it be null) of a type hint."""
    nullable = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        nullable = len(options) < len(typing.get_args(hint))
        hint = options[0]
    is_array = typing.get_origin(hint) is tuple
    element = typing.get_args(hint)[0] if is_array else hint
    nested = element if dataclasses.is_dataclass(element) and isinstance(element, type) else None
    return element, is_array, nested, nullable


def _field_reader(hint: Any, kind: str | None, flexible: bool, *, tagged: bool) -> Read:
    _, is_array, nested, nullable = shape_of(hint)
    if is_array:
        item = reader_of(nested) if nested is not None else _primitive(kind or "", flexible, nullable=False)
        return _array_reader(item, flexible, nullable)
    if nested is not None:
        return _nullable_message(reader_of(nested)) if nullable and not tagged else reader_of(nested)
    return _primitive(kind or "", flexible, nullable)


def _nullable_message(read: Read) -> Read:
    """A message that may be null has a byte before it: -1 or 1 (KIP-893)."""

    def read_nullable(buffer: Buffer, position: int) -> tuple[Any, int]:
        if buffer[position] == 0xFF:
            return None, position + 1
        return read(buffer, position + 1)

    return read_nullable


def _array_reader(item: Read, flexible: bool, nullable: bool) -> Read:
    def read_array(buffer: Buffer, position: int) -> tuple[Any, int]:
        if flexible:
            count, position = read_uvarint(buffer, position)
            count -= 1
        else:
            count, position = _INT32(buffer, position)
        if count < 0:
            if count != -1 or not nullable:
                raise Malformed("an array that may not be null is null")
            return None, position
        # An element takes at least a byte, so a longer array than there are bytes is a lie.
        if count > ARRAY_ITEMS_MAX or count > len(buffer) - position:
            raise Malformed(f"an array of {count} elements in {len(buffer) - position} bytes")
        _elements.left -= count
        if _elements.left < 0:
            raise Malformed(f"a message with more than {ARRAY_ITEMS_MAX} elements in its arrays")
        values = []
        for _ in range(count):
            value, position = item(buffer, position)
            values.append(value)
        return tuple(values), position

    return read_array


def _fixed(code: str) -> Read:
    packer = struct.Struct(">" + code)
    size, unpack = packer.size, packer.unpack_from

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        return unpack(buffer, position)[0], position + size

    return read


_INT16, _INT32, _INT64 = _fixed("h"), _fixed("i"), _fixed("q")


def _sized(read_size: Read, less: int, nullable: bool, text: bool) -> Read:
    """A string or bytes field whose size is read first; `less` is 1 in the compact encoding."""

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        size, position = read_size(buffer, position)
        size -= less
        if size < 0:
            if size != -1 or not nullable:
                raise Malformed("a string or byte field that may not be null is null")
            return None, position
        end = position + size
        if end > len(buffer):
            raise Malformed(f"a field of {size} bytes where {len(buffer) - position} are left")
        body = bytes(buffer[position:end])
        return (body.decode() if text else body), end

    return read


def _read_uuid(buffer: Buffer, position: int) -> tuple[uuid.UUID | None, int]:
    body = bytes(buffer[position : position + 16])
    if len(body) < 16:
        raise Malformed("a uuid is cut short")
    return (uuid.UUID(bytes=body) if any(body) else None), position + 16


def _read_error_code(buffer: Buffer, position: int) -> tuple[Code, int]:
    number, position = _INT16(buffer, position)
    return Code(number), position


def _duration(read_ms: Read) -> Read:
    def read(buffer: Buffer, position: int) -> tuple[datetime.timedelta, int]:
        ms, position = read_ms(buffer, position)
        # 64 bits of milliseconds are more than a timedelta holds; no client means more than some millions of years.
        return datetime.timedelta(milliseconds=min(max(ms, -_DURATION_MS_MAX), _DURATION_MS_MAX)), position

    return read


_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def _read_time(buffer: Buffer, position: int) -> tuple[datetime.datetime | None, int]:
    """-1 stands for none."""
    ms, position = _INT64(buffer, position)
    return (None if ms == -1 else _EPOCH + datetime.timedelta(milliseconds=ms)), position


_FIXED = {
    "int8": _fixed("b"),
    "int16": _INT16,
    "int32": _INT32,
    "int64": _INT64,
    "uint8": _fixed("B"),
    "uint16": _fixed("H"),
    "uint32": _fixed("I"),
    "uint64": _fixed("Q"),
    "float64": _fixed("d"),
    "bool": _fixed("?"),
    "uuid": _read_uuid,
    "error_code": _read_error_code,
    "timedelta_i32": _duration(_INT32),
    "timedelta_i64": _duration(_INT64),
    "datetime_i64": _read_time,
}


def _primitive(kind: str, flexible: bool, nullable: bool) -> Read:
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in ("string", "bytes", "records"):
        text = kind == "string"
        if flexible:
            return _sized(read_uvarint, 1, nullable, text)
        return _sized(_INT16 if text else _INT32, 0, nullable, text)
    raise TypeError(f"no reader for kio's field type {kind!r}")
