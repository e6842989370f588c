"""Numbers and sizes as people read them."""

from __future__ import annotations


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """'1 message', '5,000 messages'."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def byte_size(size: float) -> str:
    """Bytes in the unit that keeps it short, by thousands as disks and networks count."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
