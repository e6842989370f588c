"""What a person looks for: where to begin, and which records to show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chronik.client.errors import ChronikError
from chronik.inspect.record_format import ShownRecord
from chronik.inspect.times import parse_time_ms

NEWEST, OLDEST, OFFSET, TIME = "newest", "oldest", "offset", "time"
BEGINNINGS = (NEWEST, OLDEST, OFFSET, TIME)
LIMIT_DEFAULT, LIMIT_MAX = 50, 500
_STEP = re.compile(r"\.?([^.\[\]=<>!]+)|\[(\d+)\]")
_COMPARISON = re.compile(r"^(?P<path>[^=<>!]+?)\s*(?P<how>==|=|!=|>=|<=|>|<)\s*(?P<value>.*)$", re.DOTALL)

Match = Callable[[ShownRecord], bool]


@dataclass(frozen=True)
class SearchQuery:
    topic: str
    begin: str = NEWEST
    partitions: tuple[int, ...] | None = None
    """None: all."""
    offset: int | None = None
    time_ms: int | None = None
    text: str = ""
    key: str = ""
    header: str = ""
    path: str = ""
    limit: int = LIMIT_DEFAULT

    @property
    def is_filtered(self) -> bool:
        return bool(self.text or self.key or self.header or self.path)


def parse_query(topic: str, given: Mapping[str, str]) -> SearchQuery:
    """From what a form sends. Raises ChronikError."""
    begin = given.get("from") or NEWEST
    if begin not in BEGINNINGS:
        raise ChronikError(f"a search cannot begin at {begin}", f"it can at {', '.join(BEGINNINGS)}")
    at = (given.get("at") or "").strip()
    offset = time_ms = None
    if begin == OFFSET:
        offset = _number("the offset", at)
    elif begin == TIME:
        time_ms = parse_time_ms(at)
    limit = _number("the limit", given.get("limit") or str(LIMIT_DEFAULT))
    query = SearchQuery(
        topic, begin, _partitions(given.get("partitions") or ""), offset, time_ms, given.get("text") or "",
        given.get("key") or "", (given.get("header") or "").strip(), (given.get("path") or "").strip(),
        min(max(limit, 1), LIMIT_MAX),
    )  # fmt: skip
    matcher(query)  # a path that cannot be read is refused at once
    return query


def _number(what: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise ChronikError(f"{what} is not a number: {text[:40]!r}", "write it in digits")
    return int(text)


def _partitions(text: str) -> tuple[int, ...] | None:
    """'0,2-5' as numbers."""
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, dash, high = part.partition("-")
        first = _number("a partition", low.strip())
        last = _number("a partition", high.strip()) if dash else first
        if not first <= last < first + 100_000:
            raise ChronikError(f"{part} is no range of partitions", "write it as 0,2-5")
        found.update(range(first, last + 1))
    return tuple(sorted(found)) or None


def matcher(query: SearchQuery) -> Match:
    """Whether a record is wanted: all that is given has to fit. Raises ChronikError."""
    tests: list[Match] = []
    if query.key:
        key = query.key.encode()
        tests.append(lambda record: record.key == key)
    if query.text:
        tests.append(_text_test(query.text))
    if query.header:
        tests.append(_header_test(query.header))
    if query.path:
        tests.append(_path_test(query.path))
    return lambda record: all(test(record) for test in tests)


def _text_test(text: str) -> Match:
    """In the key, the value or a header. Letters of the alphabet may be large or small."""
    pattern = re.compile(re.escape(text.encode()), re.IGNORECASE)

    def has(record: ShownRecord) -> bool:
        parts = (record.key, record.value, *(value for _, value in record.headers))
        return any(part is not None and pattern.search(part) for part in parts)

    return has


def _header_test(text: str) -> Match:
    name, equals, value = text.partition("=")
    wanted = value.encode()

    def has(record: ShownRecord) -> bool:
        return any(key == name and (not equals or found == wanted) for key, found in record.headers)

    return has


def _path_test(text: str) -> Match:
    """`order.items[0].sku`: there is such a field; `order.total > 100`: and it compares so. The value's, as JSON."""
    compared = _COMPARISON.match(text)
    steps = _steps(compared["path"] if compared else text)
    compares = None if compared is None else _comparison(compared["how"], compared["value"].strip())

    def has(record: ShownRecord) -> bool:
        try:
            value = json.loads(record.value or b"")
        except (ValueError, RecursionError):
            return False
        for step in steps:
            match value, step:
                case dict(), str() if step in value:
                    value = value[step]
                case list(), int() if step < len(value):
                    value = value[step]
                case _:
                    return False
        return compares is None or compares(value)

    return has


def _steps(path: str) -> list[str | int]:
    plain = path.strip().removeprefix("$").strip()
    steps: list[str | int] = []
    position = 0
    while position < len(plain):
        found = _STEP.match(plain, position)
        if found is None:
            raise ChronikError(f"{path[:80]!r} is no path into JSON", "write it as order.items[0].sku")
        steps.append(int(found[2]) if found[2] is not None else found[1].strip())
        position = found.end()
    if not steps:
        raise ChronikError("an empty path into JSON", "write it as order.items[0].sku")
    return steps


def _comparison(how: str, text: str) -> Callable[[Any], bool]:
    """The right side is JSON, or else a text as it stands."""
    try:
        wanted: Any = json.loads(text)
    except ValueError:
        wanted = text
    if how in ("=", "=="):
        return lambda value: bool(value == wanted and isinstance(value, bool) == isinstance(wanted, bool))
    if how == "!=":
        return lambda value: bool(value != wanted)
    orders: dict[str, Callable[[Any], bool]] = {
        ">": lambda value: value > wanted,
        "<": lambda value: value < wanted,
        ">=": lambda value: value >= wanted,
        "<=": lambda value: value <= wanted,
    }
    compares = orders[how]

    def is_so(value: Any) -> bool:
        both_numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, wanted))
        both_texts = isinstance(value, str) and isinstance(wanted, str)
        return compares(value) if both_numbers or both_texts else False

    return is_so
