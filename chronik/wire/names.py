"""Topic names off the wire: decoded once, then found again by their bytes."""

from __future__ import annotations

from chronik.core.types import Buffer
from chronik.wire.errors import Malformed

NAMES_KEPT = 16_384  # clients can ask for any name: what we keep of them is bounded

_names: dict[bytes, str] = {}


def topic_name(frame: Buffer, position: int, size: int) -> str:
    """The name of `size` bytes at `position`. Raises Malformed."""
    raw = bytes(frame[position : position + size]) if size >= 0 else b""
    if len(raw) != size:
        raise Malformed("a topic name reaches past the end")
    name = _names.get(raw)
    if name is None:
        name = raw.decode()
        if len(_names) < NAMES_KEPT:
            _names[raw] = name
    return name
