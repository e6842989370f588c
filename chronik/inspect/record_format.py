"""How `chronik consume` shows a record: as text with safe escapes, by a format of the user's, or as JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from chronik.client.errors import ChronikError

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
DEFAULT_FORMAT = "{value}"
_FIELD = re.compile(r"\{(\w*)\}")
_WRITTEN_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}


class ShownRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def shown(content: bytes | None) -> str:
    """Content for a terminal: text as it is, what no terminal should get (bytes that are no text, controls) escaped."""
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in content)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """As a Python literal would write it: \\n, \\x1b, \\u2028."""
    return char.encode("unicode_escape").decode()


class Layout:
    """A format such as '{offset} {key}:{value}', read once. Other braces, as in JSON, stand for themselves."""

    def __init__(self, text: str) -> None:
        unescaped = re.sub(r"\\[nt\\]", lambda found: _WRITTEN_ESCAPES[found[0]], text)
        self._parts = _FIELD.split(unescaped)
        for name in self._parts[1::2]:
            if name not in FIELDS:
                raise ChronikError(f"no field {{{name}}} in a record", f"there are {', '.join(FIELDS)}")

    def line(self, record: ShownRecord) -> str:
        parts = self._parts
        return "".join(_field(record, part) if index % 2 else part for index, part in enumerate(parts))


def _field(record: ShownRecord, name: str) -> str:
    match name:
        case "key" | "value":
            return shown(getattr(record, name))
        case "timestamp":
            return iso_time(record.timestamp_ms) or "null"
        case "headers":
            return ",".join(f"{key}={shown(value)}" for key, value in record.headers)
        case _:
            return str(getattr(record, name))


def as_json_line(record: ShownRecord) -> str:
    """One record as one line of JSON. Content that is no UTF-8 text is under `key_base64` or `value_base64`."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_content("key", record.key),
        **_content("value", record.value),
        "headers": [{"key": key, **_content("value", value)} for key, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False)


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def iso_time(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
