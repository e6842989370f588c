"""How a record is shown."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.errors import ChronikError
from chronik.inspect.record_format import Layout, ShownRecord, as_json_line, shown

RECORD = ShownRecord("orders", 2, 17, 1_700_000_000_123, b"k1", b"hello", [("trace", b"abc"), ("none", None)])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"plain text", "plain text"),
        ("Größe 漢字".encode(), "Größe 漢字"),
        (None, "null"),
        (b"", ""),
        (b"\x00\xff\x80bin", r"\x00\xff\x80bin"),
        (b"two\nlines\ttab", "two\\nlines\ttab"),
        (b"\x1b[31mred", r"\x1b[31mred"),
        (rb'{"a": "\n"}', r'{"a": "\n"}'),
    ],
)
def test_text_is_shown_as_it_is_and_the_rest_escaped(content: bytes | None, expected: str) -> None:
    assert shown(content) == expected


@given(st.binary())
def test_whatever_a_record_holds_it_is_one_line_without_control_characters(content: bytes) -> None:
    assert all(char.isprintable() or char == "\t" for char in shown(content))


def test_a_format_names_fields_and_other_braces_stand_for_themselves() -> None:
    assert Layout("{partition}@{offset} {key}:{value}").line(RECORD) == "2@17 k1:hello"
    assert Layout(r"{topic}\t{timestamp}\n").line(RECORD) == "orders\t2023-11-14T22:13:20.123Z\n"
    assert Layout('{"v": "{value}"}').line(RECORD) == '{"v": "hello"}'
    assert Layout("{headers}").line(RECORD) == "trace=abc,none=null"


def test_a_value_that_looks_like_a_field_is_not_replaced() -> None:
    assert Layout("{value}").line(RECORD._replace(value=b"{key}")) == "{key}"


@pytest.mark.parametrize("text", ["{k}", "{value} {Offset}", "{}"])
def test_an_unknown_field_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ChronikError, match=r"no field \{\w*\} in a record; there are topic, partition, offset"):
        Layout(text)


def test_json_has_text_as_text_and_binary_as_base64() -> None:
    binary = RECORD._replace(value=b"\xff\x00", key=None)

    assert json.loads(as_json_line(RECORD)) == {
        "topic": "orders",
        "partition": 2,
        "offset": 17,
        "timestamp_ms": 1_700_000_000_123,
        "key": "k1",
        "value": "hello",
        "headers": [{"key": "trace", "value": "abc"}, {"key": "none", "value": None}],
    }
    assert json.loads(as_json_line(binary)).get("key", "absent") is None
    assert base64.b64decode(json.loads(as_json_line(binary))["value_base64"]) == b"\xff\x00"


@given(st.binary() | st.none(), st.binary() | st.none())
def test_json_is_one_line_from_which_the_bytes_can_be_had_back(key: bytes | None, value: bytes | None) -> None:
    line = as_json_line(RECORD._replace(key=key, value=value))
    fields = json.loads(line)

    def back(name: str) -> bytes | None:
        if f"{name}_base64" in fields:
            return base64.b64decode(fields[f"{name}_base64"])
        text = fields[name]
        return None if text is None else text.encode()

    assert "\n" not in line
    assert (back("key"), back("value")) == (key, value)
