"""How far each node has applied the metadata, as the leader of the quorum hears it with their fetches (KIP-1166).

The offset that a fetch asks for says what is in a node's log; the watermark that it tells says what it has applied,
since a node applies what it hears to be safe before it fetches again.
"""

from __future__ import annotations

from collections.abc import Iterable

NOTHING_APPLIED = -1


class AppliedOffsets:
    """Of each node that fetches, below which offset it has applied everything."""

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}
        self._passed_over: set[int] = set()  # they did not come in time, and have not been heard of since

    def note(self, node_id: int, end_offset: int) -> None:
        """Its last fetch says so. It may be less than before: then the node has started anew."""
        self._offsets[node_id] = end_offset
        self._passed_over.discard(node_id)

    def behind(self, node_ids: Iterable[int], end_offset: int) -> list[int]:
        """Those of the nodes that are worth waiting for and have not applied all below `end_offset`."""
        return [
            node_id
            for node_id in node_ids
            if node_id not in self._passed_over and self._offsets.get(node_id, NOTHING_APPLIED) < end_offset
        ]

    def pass_over(self, node_ids: Iterable[int]) -> None:
        """Nothing waits for these again until they are heard of: one wait for a paused process is enough."""
        self._passed_over.update(node_ids)
