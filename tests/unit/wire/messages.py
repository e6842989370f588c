"""Values for kio's messages: every field filled, so that no part of an encoding goes unseen."""

from __future__ import annotations

import dataclasses
import datetime
import io
import itertools
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from chronik.wire.reader import shape_of
from chronik.wire.schemas import request_type, response_type
from chronik.wire.versions import APIS

FULL, NULL, SPARSE = "full", "null", "sparse"
VARIANTS = (FULL, NULL, SPARSE)
__all__ = ["SPOKEN", "SPOKEN_NAMES", "all_variants", "filled", "read", "request_type", "response_type", "write"]

# Every request and version that we answer, as (api key, version), and a name for each.
SPOKEN = [(api.key, version) for api in APIS.values() for version in range(api.supported, api.highest + 1)]
SPOKEN_NAMES = [f"{APIS[key].name}-v{version}" for key, version in SPOKEN]


def write(message: Any) -> bytes:
    """The bytes kio makes of a message."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def read(message_type: Any, content: bytes) -> Any:
    """What kio's own reader makes of the bytes; all of them must be used."""
    message, size = entity_reader(message_type)(content, 0)
    assert size == len(content), f"{len(content) - size} bytes left over"
    return message


def filled(message_type: Any, variant: str) -> Any:
    """A message with a value in each field. `full`: nothing null; `null`: all that may be; `sparse`: empty arrays."""
    return _Filler(variant).message(message_type)


class _Filler:
    def __init__(self, variant: str) -> None:
        self._variant = variant
        self._numbers = itertools.count(1)

    def message(self, message_type: Any) -> Any:
        hints = typing.get_type_hints(message_type)
        return message_type(**{f.name: self._value(hints[f.name], f) for f in dataclasses.fields(message_type)})

    def _value(self, hint: Any, field: dataclasses.Field[Any]) -> Any:
        _, is_array, nested, nullable = shape_of(hint)
        if nullable and self._variant == NULL:
            return None
        one: Callable[[], Any]
        if nested is not None:
            one = lambda: self.message(nested)  # noqa: E731
        else:
            kind = field.metadata["kafka_type"]
            one = lambda: self._primitive(kind)  # noqa: E731
        if not is_array:
            return one()
        return () if self._variant == SPARSE else tuple(one() for _ in range(2))

    def _primitive(self, kind: str) -> Any:
        number = next(self._numbers)
        match kind:
            case "int8" | "int16" | "int32" | "int64":
                return -number % 100 if number % 2 else number % 100
            case "uint8" | "uint16" | "uint32" | "uint64":
                return number % 100
            case "float64":
                return number / 4
            case "bool":
                return bool(number % 2)
            case "string":
                return "" if number % 7 == 0 else f"näme-{number}"
            case "bytes" | "records":
                return b"" if number % 7 == 0 else f"bytes-{number}".encode()
            case "uuid":
                return uuid.UUID(int=number) if number % 5 else None
            case "error_code":
                return ErrorCode(number % 90)
            case "timedelta_i32" | "timedelta_i64":
                return datetime.timedelta(milliseconds=number * 7)
            case "datetime_i64":
                return datetime.datetime.fromtimestamp(1_700_000_000 + number, datetime.UTC)
        raise TypeError(f"no value for {kind}")


def all_variants(message_type: Any) -> Iterator[tuple[str, Any]]:
    for variant in VARIANTS:
        yield variant, filled(message_type, variant)
