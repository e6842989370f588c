"""For other people's tests: a real node, or a cluster of them, on free ports, up in well under a second.

    with chronik.testing.node() as node:
        producer = KafkaProducer(bootstrap_servers=node.bootstrap)

    with chronik.testing.cluster(nodes=3) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
        cluster.kill(2)

A node is a child process with a data directory of its own, removed at the end unless one was given. The pytest
plugin (`chronik.testing.plugin`) has them as fixtures.
"""

from __future__ import annotations

from chronik.testing.cluster import ClusterNotReady, RunningCluster, cluster
from chronik.testing.node import NodeDied, RunningNode, node

__all__ = ["ClusterNotReady", "NodeDied", "RunningCluster", "RunningNode", "cluster", "node"]
