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


def endpoints_of(image: MetadataImage, leaders: Iterable[CurrentLeader]) -> list[NodeEndpoint]:
    """Where clients reach the leaders that an answer names."""
    brokers = image.brokers
    ids = dict.fromkeys(leader.leader_id for leader in leaders)
    return [NodeEndpoint(b.id, b.host, b.port, b.rack) for b in (brokers[i] for i in ids if i in brokers)]
