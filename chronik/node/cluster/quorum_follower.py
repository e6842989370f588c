"""What the quorum calls when its log is committed, cut or led by another node: `metadata`, behind a protocol."""

from __future__ import annotations

from typing import Protocol

from chronik.core.raft.messages import LogPoint


class QuorumFollower(Protocol):
    """The metadata of this node (node/cluster/metadata.py)."""

    def committed(self, end_offset: int) -> None:
        """Everything below is safe."""

    def refill(self, point: LogPoint) -> None:
        """A snapshot has taken the place of the log."""

    def resigned(self) -> None:
        """This node led the quorum, and does not any more."""
