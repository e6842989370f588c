"""Group commit: one sync to disk for everyone who waits.

While a sync runs, further appends gather; the next sync takes them all. So an acknowledgement waits for one and a half
syncs at the most, and a busy node does not sync more often than an idle one.

The trace has rounds of its own, beside the others: nobody waits for it, so it is not to make anybody wait.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.core.ports import File, Files
from chronik.core.replica.replica import Replica

log = logging.getLogger(__name__)

TRACE_GATHER_S = 0.02  # what is written to the trace at one time comes in several batches


class GroupCommit:
    """Syncs the logs that were written to, in rounds."""

    def __init__(
        self,
        files: Files,
        moved: Callable[[Replica], None],
        failed: Callable[[Replica, Exception], None],
        gather_s: float = 0.0,
    ) -> None:
        self._gather_s = gather_s  # before each round, for more to come
        self._files = files
        self._moved = moved
        self._failed = failed
        self._dirty: dict[Replica, None] = {}
        self._round: asyncio.Task[None] | None = None
        self.rounds = 0
        self.sync_seconds = 0.0  # spent in all rounds together

    def due(self, replica: Replica) -> None:
        """The replica's log was written to and someone will wait for it."""
        self._dirty[replica] = None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._run(), name="group-commit")

    async def wait_until_idle(self) -> None:
        """Until all that was due has been synced (or has failed)."""
        while self._round is not None:
            await asyncio.shield(self._round)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._dirty:
                if self._gather_s:
                    await asyncio.sleep(self._gather_s)
                dirty, self._dirty = list(self._dirty), {}
                self.rounds += 1
                began = loop.time()
                try:
                    await self._sync(dirty)
                except Exception as problem:  # a fault: that these are safe will never be known
                    log.exception("fault in a sync")
                    for replica in dirty:
                        self._failed(replica, problem)
                self.sync_seconds += loop.time() - began
        finally:
            self._round = None

    async def _sync(self, dirty: list[Replica]) -> None:
        ends: list[tuple[Replica, int, int, int]] = []
        wanted: list[File] = []
        for replica in dirty:
            files, end_offset = replica.log.unsynced()
            ends.append((replica, end_offset, replica.log.cuts, len(files)))
            wanted += files
        outcomes = iter(await self._files.sync_later(wanted))
        for replica, end_offset, cuts, file_count in ends:
            problems = [problem for problem in itertools.islice(outcomes, file_count) if problem is not None]
            if problems:
                self._failed(replica, problems[0])
            elif replica.log.cuts != cuts:  # a follower gave some of it up: other batches may stand there now
                self._dirty[replica] = None
            elif replica.offline is None:
                self._synced(replica, end_offset)

    def _synced(self, replica: Replica, end_offset: int) -> None:
        replica.log.mark_synced(end_offset)
        before = replica.safe_end
        replica.own_safe(end_offset)
        if replica.safe_end > before:  # not so when a write alone is safe enough (durability = "os")
            self._moved(replica)


class Commits:
    """The rounds of a node: those that somebody waits for, and those of the trace."""

    def __init__(
        self, files: Files, moved: Callable[[Replica], None], failed: Callable[[Replica, Exception], None]
    ) -> None:
        self._awaited = GroupCommit(files, moved, failed)
        self._of_trace = GroupCommit(files, moved, failed, TRACE_GATHER_S)

    @property
    def rounds(self) -> int:
        return self._awaited.rounds + self._of_trace.rounds

    @property
    def sync_seconds(self) -> float:
        return self._awaited.sync_seconds + self._of_trace.sync_seconds

    def due(self, replica: Replica) -> None:
        """The replica's log was written to."""
        (self._of_trace if replica.topic == TRACE_TOPIC else self._awaited).due(replica)

    async def wait_until_idle(self) -> None:
        await self._awaited.wait_until_idle()
        await self._of_trace.wait_until_idle()
