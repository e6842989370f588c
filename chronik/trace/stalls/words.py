"""How times, offsets and names are written in verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime


def clock(at_us: int) -> str:
    """The time of day, by UTC as logs have it."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]


def seconds(length_us: int) -> str:
    return f"{length_us / 1e6:.1f} s"


def listed(names: Iterable[object]) -> str:
    """'1', '1 and 2', '1, 2 and 3', 'none'."""
    words = [str(name) for name in names]
    if len(words) < 2:
        return words[0] if words else "none"
    return f"{', '.join(words[:-1])} and {words[-1]}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")
