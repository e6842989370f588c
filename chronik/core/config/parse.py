"""Settings from text: Kafka's server.properties, or TOML. What the keys and values mean is not decided here."""

from __future__ import annotations

import tomllib
from typing import Any

from chronik.core.config.definitions import BadConfig


def parse_properties(text: str) -> dict[str, str]:
    """Java properties: `key=value`, `key: value` or `key value`; `#` and `!` comments; `\\` at a line's end goes on."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        settings[key] = value
    return settings


def parse_toml(text: str) -> dict[str, str]:
    """TOML: dotted keys and tables say the same, arrays become Kafka's comma lists. Raises BadConfig."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadConfig("", f"Not valid TOML: {problem}") from problem
    settings: dict[str, str] = {}
    _flatten(tree, "", settings)
    return settings


def _flatten(tree: dict[str, Any], prefix: str, settings: dict[str, str]) -> None:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            _flatten(value, f"{name}.", settings)
        else:
            settings[name] = _text(name, value)


def _text(name: str, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list():
            return ",".join(_text(name, item) for item in value)
    raise BadConfig(name, f"Invalid value for {name}: must be a string, a number, true, false or a list of these")


def _logical_lines(text: str) -> list[str]:
    """Lines with continuations joined, without blank lines and comments."""
    lines: list[str] = []
    joined = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            joined += line[:-1]
            continue
        lines.append(joined + line)
        joined = ""
    return [*lines, joined] if joined else lines


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(key), _unescape(rest)


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\" and position < len(text):
            letter = text[position]
            position += 1
            if letter == "u":
                code = text[position : position + 4]
                if len(code) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in code):
                    raise BadConfig("", f"Malformed \\u escape in '{text}'")
                letter = chr(int(code, 16))
                position += 4
            else:
                letter = _ESCAPES.get(letter, letter)
        out.append(letter)
    return "".join(out)
