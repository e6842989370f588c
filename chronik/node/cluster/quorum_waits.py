"""Those who wait until what was written to the metadata log is safe."""

from __future__ import annotations

import asyncio

from chronik.core.errors import Code, Refused


class QuorumWaits:
    """Who waits for which end of the log."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for(self, end_offset: int) -> None:
        """Raises Refused when nobody can tell any more."""
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
