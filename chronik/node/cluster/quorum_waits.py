"""Requests that wait until what they wrote to the metadata log is committed, or applied by other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from chronik.core.errors import Code, Refused
from chronik.core.raft.applied import AppliedOffsets
from chronik.node.runtime.predicate_waits import PredicateWaits


class QuorumWaits:
    """Who waits for which end of the log."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for(self, end_offset: int) -> None:
        """Raises Refused when that cannot be known any more."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, future))
        await future

    def safe(self, end_offset: int) -> None:
        """Everything below is."""
        due = [future for offset, future in self._waiting if offset <= end_offset and not future.done()]
        self._waiting = [(offset, future) for offset, future in self._waiting if offset > end_offset]
        for future in due:
            future.set_result(None)

    def fail(self) -> None:
        """This node does not lead any more, or takes no part."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(Refused(Code.NOT_LEADER_OR_FOLLOWER, "the leader of the quorum has changed"))


class AppliedWaits:
    """Who waits until other nodes have applied the metadata up to an offset."""

    def __init__(self) -> None:
        self._offsets = AppliedOffsets()
        self._waits = PredicateWaits()

    def note(self, node_id: int, end_offset: int) -> None:
        """A node has applied everything below."""
        self._offsets.note(node_id, end_offset)
        self.look_again()

    async def wait_for(self, end_offset: int, node_ids: Callable[[], Iterable[int]], timeout_ms: int) -> None:
        """Until the nodes that count by then have it, or time is up: those that have not are passed over from then on,
        until they are heard of again."""
        if not await self._waits.wait_for(lambda: self._has_come(end_offset, node_ids), timeout_ms):
            self._offsets.pass_over(self._offsets.behind(node_ids(), end_offset))

    def _has_come(self, end_offset: int, node_ids: Callable[[], Iterable[int]]) -> bool:
        return not self._offsets.behind(node_ids(), end_offset)

    def look_again(self) -> None:
        """A node may have come, or not count any more."""
        self._waits.look_again()
