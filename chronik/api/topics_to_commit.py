"""What OffsetCommit and TxnOffsetCommit share: topics by name or id, and why some of their partitions get no offset."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Protocol

from chronik.core.errors import Code
from chronik.core.machines.groups.commands import OffsetToCommit
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.image import Topic as KnownTopic


class PartitionToCommit(Protocol):
    @property
    def partition_index(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    @property
    def committed_leader_epoch(self) -> int: ...
    @property
    def committed_metadata(self) -> str | None: ...


class TopicToCommit(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> uuid.UUID | None: ...
    @property
    def partitions(self) -> Sequence[PartitionToCommit]: ...


class TopicsToCommit:
    """The topics of a request, looked up once: while a coordinator is asked, topics come, go and grow."""

    def __init__(self, topics: Sequence[TopicToCommit], by_id: bool, image: MetadataImage) -> None:
        found = [(topic, *_find(topic, by_id, image)) for topic in topics]
        self.offsets = tuple(
            OffsetToCommit(
                known.name,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata,
                known.id,
            )
            for topic, known, problems in found
            for each, problem in zip(topic.partitions, problems, strict=True)
            if known is not None and not problem
        )
        self._problems = [problems for _, _, problems in found]

    def codes(self, given: Sequence[Code]) -> list[list[Code]]:
        """For each topic the code of each partition, once the group has given one for each of `offsets`."""
        codes = iter(given)
        return [[problem or next(codes) for problem in problems] for problems in self._problems]


def _find(topic: TopicToCommit, by_id: bool, image: MetadataImage) -> tuple[KnownTopic | None, list[Code]]:
    """The topic, and for each partition why nothing can be committed for it: NONE where something can."""
    if by_id:
        known = None if topic.topic_id is None else image.topic_by_id(topic.topic_id.bytes)
    else:
        known = image.topic(topic.name)
    if known is None:
        return None, [Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION] * len(topic.partitions)
    exists = range(len(known.partitions))
    return known, [
        Code.NONE if partition.partition_index in exists else Code.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions
    ]
