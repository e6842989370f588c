"""A cluster as one of its nodes sees it: who is there, who is the controller, which partitions nobody leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronik.shell.asking import Address, ask


@dataclass(frozen=True)
class ClusterView:
    cluster_id: str
    controller_id: int | None
    addresses: Mapping[int, Address]
    """Of the live nodes, as clients are told them."""
    leaderless: tuple[tuple[str, int], ...]
    """Partitions without a leader."""

    def is_whole(self, node_ids: list[int]) -> bool:
        """Whether all of these nodes are alive, one of them is the controller, and every partition is led."""
        return set(node_ids) <= set(self.addresses) and self.controller_id is not None and not self.leaderless


def view_of(address: Address, timeout_s: float = 5.0) -> ClusterView:
    """What the node at this address answers. Raises NoAnswer."""
    from kio.schema.metadata.v12.request import MetadataRequest

    request = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    found = ask(address, request, timeout_s)
    return ClusterView(
        found.cluster_id or "",
        found.controller_id if found.controller_id >= 0 else None,
        {broker.node_id: (broker.host, broker.port) for broker in found.brokers},
        tuple(
            (topic.name or "", partition.partition_index)
            for topic in found.topics
            for partition in topic.partitions
            if partition.leader_id < 0
        ),
    )
