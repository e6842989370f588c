"""Group commit: one sync to disk for all requests that wait.

While a sync runs, further appends gather; the next sync takes them all. So an acknowledgement waits for one and a half
syncs at the most, and a busy node does not sync more often than an idle one.

A sync that failed is never tried again. One that could not begin, because there was no descriptor to open a file with,
is put off for a moment: nothing was lost by it, and those that wait go on waiting.

Logs that no response waits for (`is_awaited`) have rounds of their own, beside the others: they are not to make any
response wait.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable

from chronik.core.errors import shortage_of
from chronik.core.ports import File, Files
from chronik.core.replica.replica import Replica

log = logging.getLogger(__name__)

PUT_OFF_S = 0.1
GATHER_S = 0.02  # before a round that no response waits for: what is written there comes in several batches


class GroupCommit:
    """Syncs the logs that were written to, in rounds."""

    def __init__(
        self,
        files: Files,
        moved: Callable[[Replica], None],
        failed: Callable[[Replica, Exception], None],
        store_recovery_points: Callable[[], Awaitable[None]],
        gather_s: float = 0.0,
    ) -> None:
        self._gather_s = gather_s  # before each round, for more to come
        self._files = files
        self._moved = moved
        self._failed = failed
        self._store_recovery_points = store_recovery_points
        self._dirty: dict[Replica, None] = {}
        self._waiting: dict[Replica, None] = {}  # put off
        self._timer: asyncio.TimerHandle | None = None  # until they are tried again
        self._is_short = False  # since the last sync that could begin
        self._round: asyncio.Task[None] | None = None
        self.rounds = 0
        self.sync_seconds = 0.0  # spent in all rounds together

    def due(self, replica: Replica) -> None:
        """The replica's log was written to, and a request will wait for it."""
        self._dirty[replica] = None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._run(), name="group-commit")

    async def wait_until_idle(self) -> None:
        """Until all that was due has been synced (or has failed, or is put off)."""
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
        rolled: list[tuple[Replica, int, int]] = []
        for replica, end_offset, cuts, file_count in ends:
            problems = [problem for problem in itertools.islice(outcomes, file_count) if problem is not None]
            failed = next((problem for problem in problems if shortage_of(problem) is None), None)
            if failed is not None:
                self._failed(replica, failed)
            elif problems:
                self._put_off(replica, problems[0])
            elif replica.log.cuts != cuts:  # a follower gave some of it up: other batches may stand there now
                self._dirty[replica] = None
            elif replica.offline is None:
                if replica.log.is_on_disk(end_offset):
                    self._synced(replica, end_offset)
                else:
                    rolled.append((replica, end_offset, cuts))
        if rolled:
            await self._sync_rolled(rolled)

    async def _sync_rolled(self, rolled: list[tuple[Replica, int, int]]) -> None:
        """A segment was closed, and the next begun: what is in that counts when the recovery point says of the first
        that it is on disk."""
        try:
            await self._store_recovery_points()
        except OSError as problem:  # the disk is full, say: all is synced, and the responses go on waiting
            for replica, _, _ in rolled:
                self._put_off(replica, problem)
            return
        for replica, end_offset, cuts in rolled:
            if replica.log.cuts != cuts:
                self._dirty[replica] = None
            elif replica.offline is None:
                replica.log.recovery_point.stored(end_offset)
                self._synced(replica, end_offset)

    def _put_off(self, replica: Replica, problem: OSError) -> None:
        if not self._is_short:
            log.error("syncs cannot begin, or not be reported, and are tried until they can: %s", problem)
        self._is_short = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PUT_OFF_S, self._try_again)
        self._waiting[replica] = None

    def _try_again(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        for replica in waiting:
            if replica.offline is None:
                self.due(replica)

    @property
    def is_put_off(self) -> bool:
        """Whether something will be tried again."""
        return self._timer is not None

    def close(self) -> None:
        """What is put off is not tried again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _synced(self, replica: Replica, end_offset: int) -> None:
        self._is_short = False
        replica.log.mark_synced(end_offset)
        before = replica.durable_end_offset
        replica.own_safe(end_offset)
        if replica.durable_end_offset > before:  # not so when a write alone is safe enough (durability = "os")
            self._moved(replica)


class SyncRounds:
    """The rounds of a node: those that a response waits for, and the others."""

    def __init__(
        self,
        files: Files,
        moved: Callable[[Replica], None],
        failed: Callable[[Replica, Exception], None],
        store_recovery_points: Callable[[], Awaitable[None]],
        *,
        is_awaited: Callable[[Replica], bool] = lambda replica: True,
    ) -> None:
        self._is_awaited = is_awaited
        self._awaited = GroupCommit(files, moved, failed, store_recovery_points)
        self._unawaited = GroupCommit(files, moved, failed, store_recovery_points, GATHER_S)

    @property
    def rounds(self) -> int:
        return self._awaited.rounds + self._unawaited.rounds

    @property
    def sync_seconds(self) -> float:
        return self._awaited.sync_seconds + self._unawaited.sync_seconds

    @property
    def is_put_off(self) -> bool:
        return self._awaited.is_put_off or self._unawaited.is_put_off

    def due(self, replica: Replica) -> None:
        """The replica's log was written to."""
        (self._awaited if self._is_awaited(replica) else self._unawaited).due(replica)

    async def wait_until_idle(self) -> None:
        await self._awaited.wait_until_idle()
        await self._unawaited.wait_until_idle()

    def close(self) -> None:
        self._awaited.close()
        self._unawaited.close()
