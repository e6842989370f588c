"""Moments as people write them."""

from __future__ import annotations

from datetime import datetime

from chronik.client.errors import ChronikError


def parse_time_ms(text: str) -> int:
    """A moment in milliseconds since 1970: ISO 8601 (local time unless it names a zone), or such a number itself."""
    if text.isdecimal():
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise ChronikError(
            f"{text} is not a time", "write it as 2026-01-31T12:30:00, with Z or +01:00 for a zone"
        ) from None
