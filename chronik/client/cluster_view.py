"""A cluster as one of its nodes sees it: who is there, which node is the controller, which partitions no node leads."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from chronik.client.request import Address, ask
from chronik.client.security import Security

Partition = tuple[str, int]


@dataclass(frozen=True)
class ClusterView:
    cluster_id: str
    controller_id: int | None
    addresses: Mapping[int, Address]
    """Of the live nodes, as Metadata responses give them."""
    leaderless: tuple[Partition, ...]
    """Partitions without a leader."""
    replicas: Mapping[Partition, tuple[int, ...]]
    """The nodes that are to hold each partition, the preferred leader first."""

    def held_by(self, node_id: int) -> list[Partition]:
        return [partition for partition, nodes in self.replicas.items() if node_id in nodes]

    def to_be_led(self, node_ids: Collection[int]) -> list[Partition]:
        """Partitions without a leader of which one of these nodes has a replica: no others can be led by them."""
        return [partition for partition in self.leaderless if not set(self.replicas[partition]).isdisjoint(node_ids)]

    def is_whole(self, node_ids: Collection[int]) -> bool:
        """Whether all of these nodes are alive, there is a controller, and what they hold is led. What only other nodes
        hold, which may be dead, says nothing about these."""
        is_complete = set(node_ids) <= set(self.addresses) and self.controller_id is not None
        return is_complete and not self.to_be_led(node_ids)


def view_of(
    address: Address, timeout_s: float = 5.0, tls: ssl.SSLContext | None = None, security: Security | None = None
) -> ClusterView:
    """What the node at this address answers. Raises NoAnswer."""
    from kio.schema.metadata.v12.request import MetadataRequest

    request = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    found = ask(address, request, timeout_s, tls=tls, security=security)
    partitions = {
        (topic.name or "", partition.partition_index): partition
        for topic in found.topics
        for partition in topic.partitions
    }
    return ClusterView(
        found.cluster_id or "",
        found.controller_id if found.controller_id >= 0 else None,
        {broker.node_id: (broker.host, broker.port) for broker in found.brokers},
        tuple(name for name, partition in partitions.items() if partition.leader_id < 0),
        {name: tuple(partition.replica_nodes) for name, partition in partitions.items()},
    )
