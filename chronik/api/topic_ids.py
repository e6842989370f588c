"""Topic ids between the wire (UUID objects, none for zero) and the core (16 bytes), and the names of their topics."""

from __future__ import annotations

import uuid

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage

_ZERO = bytes(16)


def to_wire(topic_id: bytes) -> uuid.UUID | None:
    return None if topic_id == _ZERO else uuid.UUID(bytes=topic_id)


def from_wire(topic_id: uuid.UUID | None) -> bytes | None:
    return None if topic_id is None else topic_id.bytes


def topic_name(image: MetadataImage, topic: str | bytes) -> str:
    """The name of a topic that a request names by name or id; a name need not be known. Raises Refused."""
    if isinstance(topic, str):
        return topic
    known = image.topic_by_id(topic)
    if known is None:
        raise Refused(Code.UNKNOWN_TOPIC_ID)
    return known.name
