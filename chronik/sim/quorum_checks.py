"""What must hold between the nodes' metadata: one quorum leader in an epoch, one image at an offset."""

from __future__ import annotations

import hashlib
from typing import Any

from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.image import MetadataImage
from chronik.sim.story import WorldStory


class QuorumChecks:
    """It is given what is seen of each node's part of the quorum. Each method that finds a broken promise raises
    Violation."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._leaders: dict[int, int] = {}  # by epoch, for ever
        self._images: dict[int, tuple[int, str, dict[str, Any]]] = {}  # by offset: who had it first, digest and state

    def leads(self, node_id: int, epoch: int) -> None:
        """A node believes that it leads the quorum in this epoch."""
        leader = self._leaders.setdefault(epoch, node_id)
        if leader != node_id:
            raise self._story.break_promise(f"node{leader} and node{node_id} both lead the quorum in epoch {epoch}")

    def image_at(self, node_id: int, offset: int, image: MetadataImage) -> None:
        """A node's image holds everything below this offset of the metadata log."""
        state = metadata_state(image)
        found = digest(state)
        first, known, before = self._images.setdefault(offset, (node_id, found, state))
        if known != found:
            raise self._story.break_promise(
                f"node{first} and node{node_id} have different metadata at offset {offset}:"
                f" {'; '.join(differences(before, state))}"
            )


def metadata_state(image: MetadataImage) -> dict[str, Any]:
    """All that the metadata log decides, and nothing that a node has of its own."""
    return {
        "topics": {
            name: (topic.id, tuple(topic.partitions), dict(sorted(image.topic_overrides(name).items())))
            for name, topic in sorted(image.topics.items())
        },
        "brokers": dict(sorted(image.brokers.items())),
        "broker settings": {
            name: dict(sorted(image.broker_overrides(name).items()))
            for name in ("", *(str(node_id) for node_id in sorted(image.brokers)))
        },
        "group settings": {
            name: dict(sorted(values.items()))
            for kind, name, values in sorted(image.overrides())
            if kind == ResourceType.GROUP
        },
        "next_producer_id": image.next_producer_id,
        "features": dict(sorted(image.features.items())),
    }


def digest(state: dict[str, Any]) -> str:
    return hashlib.blake2b(repr(state).encode(), digest_size=16).hexdigest()


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Which parts are not the same, and how."""
    return [f"{part}: {one[part]} and {other[part]}" for part in one if one[part] != other[part]]
