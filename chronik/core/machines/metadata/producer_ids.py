"""The producer ids a node may give out: blocks that the metadata machine allocated to it and nothing else."""

from __future__ import annotations

from collections import deque

from chronik.core.machines.metadata.commands import ProducerIdBlock


class ProducerIds:
    """Ids of this node's blocks, one by one. What is left when the node stops is never used: ids are plenty."""

    def __init__(self) -> None:
        self._blocks: deque[ProducerIdBlock] = deque()

    def take(self) -> int | None:
        """An id that was never given to anyone; None when a block has to be allocated first."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if block.start_id + 1 < block.end_id:
            self._blocks.appendleft(ProducerIdBlock(block.start_id + 1, block.end_id))
        return block.start_id

    def add(self, block: ProducerIdBlock) -> None:
        """A block that is safely ours. Two requests may both have asked for one: both are used up."""
        self._blocks.append(block)
