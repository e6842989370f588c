"""Naming the leader to clients that asked another node: in a refusal, from some versions on (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from chronik.core.errors import Code
from chronik.core.machines.metadata.image import MetadataImage
from chronik.wire.leaders import CurrentLeader, NodeEndpoint

# Refusals that come with the leader to ask instead.
LEADER_CHANGED = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)


def current_leader(image: MetadataImage, topic: str | bytes, partition: int) -> CurrentLeader | None:
    """Which node leads a partition, as far as this one knows."""
    placed = image.partition(topic, partition)
    return CurrentLeader(placed.leader, placed.leader_epoch) if placed is not None else None


def endpoints_of(image: MetadataImage, leaders: Iterable[CurrentLeader], listener: str) -> list[NodeEndpoint]:
    """Where clients that came by this listener reach the leaders that an answer names."""
    brokers = (image.brokers.get(node_id) for node_id in dict.fromkeys(leader.leader_id for leader in leaders))
    found = ((broker, broker.reached_by(listener)) for broker in brokers if broker is not None)
    return [NodeEndpoint(broker.id, *address, broker.rack) for broker, address in found if address is not None]
