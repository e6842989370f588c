"""The topics of the cluster as group coordinators see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.metadata.image import MetadataImage


class TopicShapes(Mapping[str, TopicShape]):
    """The image as a group sees it. A view: most heartbeats look at a handful of topics."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics

    def __getitem__(self, name: str) -> TopicShape:
        topic = self._topics[name]
        return TopicShape(topic.id, len(topic.partitions))

    def __contains__(self, name: object) -> bool:
        return name in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)
