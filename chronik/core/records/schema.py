"""A codec for the records that machines keep in their logs, in Kafka's own formats.

kio has the messages of the wire but not the records of `__consumer_offsets` and `__cluster_metadata`. Those
are few, so they are written down as dataclasses whose fields carry a type of this module:

    @dataclass(frozen=True, slots=True)
    class TopicRecord:
        name: str = field_of(STRING)
        topic_id: bytes = field_of(UUID)

    TOPIC = Schema(TopicRecord, flexible=True)
    TOPIC.encode(record), TOPIC.decode(buffer, position)

Only one version of each record is written; `flexible` says whether it is in the compact, tagged encoding.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from chronik.core.errors import Corrupt
from chronik.core.types import Buffer

R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class FieldType:
    """How one value is written and read, in the classic and in the flexible encoding."""

    write: Callable[[bytearray, Any, bool], None]
    read: Callable[[Buffer, int, bool], tuple[Any, int]]


def field_of(kind: FieldType, *, tag: int | None = None, default: Any = dataclasses.MISSING) -> Any:
    """A dataclass field of this type; with `tag`, one that is written only when it is not the default."""
    return dataclasses.field(default=default, metadata={"kind": kind, "tag": tag})


class Schema(Generic[R]):
    """Reads and writes one record type."""

    def __init__(self, record_type: type[R], *, flexible: bool) -> None:
        self.record_type = record_type
        self.flexible = flexible
        fields = dataclasses.fields(record_type)  # type: ignore[arg-type]  # R is always a dataclass
        self._plain = [(f.name, f.metadata["kind"]) for f in fields if f.metadata["tag"] is None]
        tagged = [
            (f.metadata["tag"], f.name, f.metadata["kind"], f.default) for f in fields if f.metadata["tag"] is not None
        ]
        self._tagged = sorted(tagged, key=lambda entry: int(entry[0]))

    def encode(self, record: R) -> bytes:
        out = bytearray()
        self.write(out, record)
        return bytes(out)

    def decode(self, buffer: Buffer, position: int = 0) -> R:
        """The record at `position`. Raises Corrupt when the bytes do not fit the schema."""
        try:
            return self.read(buffer, position)[0]
        except (struct.error, IndexError, UnicodeDecodeError, ValueError) as problem:
            raise Corrupt(self.record_type.__name__, f"does not decode: {problem}") from problem

    def write(self, out: bytearray, record: R) -> None:
        for name, kind in self._plain:
            kind.write(out, getattr(record, name), self.flexible)
        if not self.flexible:
            return
        present = [
            (tag, kind, getattr(record, name))
            for tag, name, kind, default in self._tagged
            if getattr(record, name) != default
        ]
        write_uvarint(out, len(present))
        for tag, kind, value in present:
            body = bytearray()
            kind.write(body, value, True)
            write_uvarint(out, tag)
            write_uvarint(out, len(body))
            out += body

    def read(self, buffer: Buffer, position: int) -> tuple[R, int]:
        values: dict[str, Any] = {}
        for name, kind in self._plain:
            values[name], position = kind.read(buffer, position, self.flexible)
        if self.flexible:
            tagged = {tag: (name, kind) for tag, name, kind, _ in self._tagged}
            count, position = read_uvarint(buffer, position)
            for _ in range(count):
                tag, position = read_uvarint(buffer, position)
                size, position = read_uvarint(buffer, position)
                if tag in tagged:
                    name, kind = tagged[tag]
                    values[name], _ = kind.read(buffer, position, True)
                position += size
        return self.record_type(**values), position


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def _fixed(code: str) -> FieldType:
    packer = struct.Struct(">" + code)

    def write(out: bytearray, value: Any, flexible: bool) -> None:
        out += packer.pack(value)

    def read(buffer: Buffer, position: int, flexible: bool) -> tuple[Any, int]:
        return packer.unpack_from(buffer, position)[0], position + packer.size

    return FieldType(write, read)


INT8, INT16, INT32, INT64 = _fixed("b"), _fixed("h"), _fixed("i"), _fixed("q")
UINT16, FLOAT64, BOOL = _fixed("H"), _fixed("d"), _fixed("?")


def _take(buffer: Buffer, position: int, size: int) -> bytes:
    if size < 0 or position + size > len(buffer):
        raise ValueError(f"{size} bytes wanted at {position}, {len(buffer) - position} are there")
    return bytes(buffer[position : position + size])


def _sized(size_kind: FieldType, nullable: bool, text: bool) -> FieldType:
    """A string or byte field: classic length prefix, or compact (length + 1, 0 for null)."""

    def write(out: bytearray, value: Any, flexible: bool) -> None:
        if value is None:
            if not nullable:
                raise ValueError("a field that may not be null is null")
            if flexible:
                out.append(0)
            else:
                size_kind.write(out, -1, False)
            return
        body = value.encode() if text else value
        if flexible:
            write_uvarint(out, len(body) + 1)
        else:
            size_kind.write(out, len(body), False)
        out += body

    def read(buffer: Buffer, position: int, flexible: bool) -> tuple[Any, int]:
        if flexible:
            size, position = read_uvarint(buffer, position)
            size -= 1
        else:
            size, position = size_kind.read(buffer, position, False)
        if size < 0:
            if not nullable:
                raise ValueError("a field that may not be null is null")
            return None, position
        body = _take(buffer, position, size)
        return (body.decode() if text else body), position + size

    return FieldType(write, read)


STRING, NULLABLE_STRING = _sized(INT16, nullable=False, text=True), _sized(INT16, nullable=True, text=True)
BYTES, NULLABLE_BYTES = _sized(INT32, nullable=False, text=False), _sized(INT32, nullable=True, text=False)
UUID = FieldType(lambda out, value, flexible: out.extend(value), lambda b, p, flexible: (_take(b, p, 16), p + 16))


def nullable(schema: Schema[Any]) -> FieldType:
    """A nested record or None: a byte says which (1 or -1), as Kafka writes it."""

    def write(out: bytearray, value: Any, flexible: bool) -> None:
        INT8.write(out, -1 if value is None else 1, flexible)
        if value is not None:
            schema.write(out, value)

    def read(buffer: Buffer, position: int, flexible: bool) -> tuple[Any, int]:
        present, position = INT8.read(buffer, position, flexible)
        return (None, position) if present < 0 else schema.read(buffer, position)

    return FieldType(write, read)


def array_of(kind: FieldType | Schema[Any], *, nullable: bool = False) -> FieldType:
    """A tuple of values; of nested records when given their schema."""
    if isinstance(kind, Schema):
        nested = kind
        item = FieldType(
            lambda out, value, flexible: nested.write(out, value), lambda b, p, flexible: nested.read(b, p)
        )
    else:
        item = kind

    def write(out: bytearray, values: Any, flexible: bool) -> None:
        if values is None and not nullable:
            raise ValueError("an array that may not be null is null")
        count = -1 if values is None else len(values)
        if flexible:
            write_uvarint(out, count + 1)
        else:
            INT32.write(out, count, False)
        for value in values or ():
            item.write(out, value, flexible)

    def read(buffer: Buffer, position: int, flexible: bool) -> tuple[Any, int]:
        if flexible:
            count, position = read_uvarint(buffer, position)
            count -= 1
        else:
            count, position = INT32.read(buffer, position, False)
        if count < 0:
            if not nullable:
                raise ValueError("an array that may not be null is null")
            return None, position
        if count > len(buffer) - position:
            raise ValueError(f"an array of {count} in {len(buffer) - position} bytes")
        values = []
        for _ in range(count):
            value, position = item.read(buffer, position, flexible)
            values.append(value)
        return tuple(values), position

    return FieldType(write, read)
