"""Topic ids between the wire (UUID objects, none for zero) and the core (16 bytes)."""

from __future__ import annotations

import uuid

_ZERO = bytes(16)


def to_wire(topic_id: bytes) -> uuid.UUID | None:
    return None if topic_id == _ZERO else uuid.UUID(bytes=topic_id)


def from_wire(topic_id: uuid.UUID | None) -> bytes | None:
    return None if topic_id is None else topic_id.bytes
