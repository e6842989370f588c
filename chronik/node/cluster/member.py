"""The parts of a node that have to do with its cluster, as one value: links, quorum, metadata, controller, liveness."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.node.cluster.controller_link import ControllerLink
from chronik.node.cluster.failure_detector import FailureDetector
from chronik.node.cluster.liveness import Liveness
from chronik.node.cluster.metadata import Metadata
from chronik.node.cluster.node_principals import NodePrincipals
from chronik.node.cluster.quorum import Quorum
from chronik.node.net.peers import Peers


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A node alone has all of this too, with nothing to do for it."""

    peers: Peers
    quorum: Quorum
    metadata: Metadata
    controller: ControllerLink
    liveness: Liveness
    failure_detector: FailureDetector
    principals: NodePrincipals

    async def stop(self) -> None:
        """The quorum first: what is not committed by then is not going to be."""
        await self.quorum.stop()
        await self.metadata.stop()
