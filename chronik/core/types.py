"""The nouns every room uses."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

# Whatever holds bytes and can be sliced without copying (bytes, bytearray or a view of one).
Buffer: TypeAlias = bytes | bytearray | memoryview

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
# From here on producer ids are digests of what is written, made by those that write it (pipeline/sink.py): no cluster
# gives them out, and the blocks of one that does never come so far.
NAMED_PRODUCER_IDS_FROM = 1 << 62
UNKNOWN_OFFSET = -1
NO_TIMESTAMP = -1
NO_EPOCH = -1


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
