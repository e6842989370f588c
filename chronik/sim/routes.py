"""What a client of a simulated world knows of the cluster: where brokers are, which node leads, which node coordinates.

As Kafka's own clients do it: a leader of an older epoch than one that was heard of before is not believed (KIP-320),
so a node that has been left behind cannot lead a client back to the past. A topic with another id is another topic,
whatever its name: its epochs begin anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chronik.core.errors import Code
from chronik.core.types import TopicPartition

Address = tuple[str, int]


class KnownLeader(NamedTuple):
    """Where a partition is, as far as a client knows."""

    leader: int  # -1: no node leads
    leader_epoch: int
    replicas: tuple[int, ...]
    topic_id: Any


class SimRoutes:
    """Learned from answers, and doubted when something goes wrong."""

    def __init__(self) -> None:
        self.brokers: dict[int, Address] = {}
        self.places: dict[TopicPartition, KnownLeader] = {}
        self.coordinators: dict[str, Address] = {}
        self.is_stale = True  # to be asked for again before it is used

    def learn(self, answer: Any) -> None:
        """Take in an answer to a metadata request."""
        self.brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            for part in topic.partitions:
                name = TopicPartition(topic.name, part.partition_index)
                known = self.places.get(name)
                if known is None or topic.topic_id != known.topic_id or part.leader_epoch >= known.leader_epoch:
                    leader = part.leader_id if part.error_code == Code.NONE else -1
                    self.places[name] = KnownLeader(leader, part.leader_epoch, part.replica_nodes, topic.topic_id)
        self.is_stale = False

    def doubt(self) -> None:
        """Something went wrong: ask again before the next request."""
        self.is_stale = True
        self.coordinators.clear()

    def forget(self, topic: str) -> None:
        """The topic is gone; one that has its name later begins with another epoch."""
        for name in [name for name in self.places if name.topic == topic]:
            del self.places[name]

    def address_of(self, node_id: int) -> Address | None:
        return self.brokers.get(node_id)
