"""Names, contents and commands as a page may show them: nothing in them can change what is around them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

JSON_BYTES_MAX = 256 * 1024  # larger values are not indented


def plain(text: str) -> str:
    """Text without controls and without characters that turn the direction of what follows (bidi): they are written as
    escapes. What HTML needs escaped is the template's work."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def plain_lines(text: str) -> str:
    """As `plain`, but for line ends and tabs: for what is shown in a block of its own."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """As a Python literal would write it; half of a pair, which no encoding takes, too."""
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


@dataclass(frozen=True)
class ShownContent:
    """A key, a value or a header, for a page."""

    kind: str
    """`null`, `empty`, `json`, `text` or `binary`."""
    text: str
    size_bytes: int
    is_cut: bool = False


def content(found: bytes | None, limit: int, *, is_indented: bool = False) -> ShownContent:
    """The first `limit` bytes at most. Bytes that are no UTF-8 are shown as hex."""
    if found is None:
        return ShownContent("null", "", 0)
    size = len(found)
    if not size:
        return ShownContent("empty", "", 0)
    head = found[:limit]
    is_cut = size > limit
    text = _text(head, is_cut)
    if text is None:
        head = head[: limit // 3]  # each byte takes three characters
        return ShownContent("binary", head.hex(" "), size, len(head) < size)
    if not is_cut and size <= JSON_BYTES_MAX and text.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if parsed is not None:
            shown = json.dumps(parsed, ensure_ascii=False, indent=2) if is_indented else text
            return ShownContent("json", plain_lines(shown), size)
    return ShownContent("text", plain_lines(text), size, is_cut)


def _text(head: bytes, is_cut: bool) -> str | None:
    try:
        return head.decode()
    except UnicodeDecodeError as problem:
        # A character that was cut in two at the end is no broken text.
        if is_cut and problem.start >= len(head) - 3:
            return head[: problem.start].decode()
        return None


def command(*parts: str, bootstrap: str) -> str:
    """What to type for the same answer."""
    return shlex.join(["chronik", *(plain(part) for part in parts), "--bootstrap", bootstrap])


def numbers(found: Iterable[int]) -> str:
    """'0-3, 5'."""
    spans: list[list[int]] = []
    for number in sorted(set(found)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)


def time_of(at_ms: float | None) -> str | None:
    """In UTC: a page may be sent to a colleague elsewhere. None for times that no calendar has."""
    if at_ms is None:
        return None
    try:
        found = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return f"{found:%Y-%m-%d %H:%M:%S}.{int(at_ms % 1000):03d}Z"


def span(seconds: float) -> str:
    """'12 s', '3 min', '2.5 h'."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def listed(words: Sequence[str], limit: int) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(words) - limit:,} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + more
