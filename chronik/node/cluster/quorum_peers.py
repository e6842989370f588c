"""The other nodes of the quorum: their addresses, and the links to them, opened with the first request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.core.raft.quorum_log import QuorumLog
from chronik.core.raft.ready import RaftSettings
from chronik.node.net.peers import Peers

if TYPE_CHECKING:
    from chronik.node.cluster.quorum_links import QuorumLinks


class QuorumPeers:
    """How this node reaches them."""

    def __init__(self, peers: Peers, quorum_log: QuorumLog, settings: RaftSettings, cluster_id: str) -> None:
        self._peers = peers
        self._log = quorum_log
        self._settings = settings
        self._links: QuorumLinks | None = None
        self.cluster_id = cluster_id

    @property
    def links(self) -> QuorumLinks:
        if self._links is None:
            from chronik.node.cluster.quorum_links import QuorumLinks  # a node that is alone starts without it

            self._links = QuorumLinks(self._peers, self._settings, self.cluster_id)
        return self._links

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        return self._log.voter_addresses.get(node_id) or self._peers.address_of(node_id)

    async def wait_until_answered(self, seconds: float) -> None:
        """Until nothing that was asked is under way, or so long."""
        if self._links is not None:
            await self._links.wait_until_answered(seconds)

    def listen(self, refused: Callable[[int], None]) -> None:
        """Hear of nodes that refuse connections: their process is gone."""
        self._peers.listen_for_refusals(refused)

    def stop_listening(self, refused: Callable[[int], None]) -> None:
        self._peers.stop_listening(refused)
