"""The log start offset that a follower reports to its leader: only one that is on disk, so no crash takes it back.

An answer to DeleteRecords waits until the logs of all that are in sync begin no earlier. A start that is not on disk is
forgotten with the process; if that node then led, what was said to be gone would be there again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from chronik.core.errors import Refused
from chronik.core.replica.replica import Replica
from chronik.node.replication.replicas import Replicas

log = logging.getLogger(__name__)

RETRY_S = 1.0


class StoredStarts:
    """Stores the starts that it is asked for, and says when that is done."""

    def __init__(self, replicas: Replicas, on_stored: Callable[[Replica], None]) -> None:
        self._replicas = replicas
        self._on_stored = on_stored
        self._to_store: dict[Replica, None] = {}
        self._task: asyncio.Task[None] | None = None

    def of(self, replica: Replica) -> int:
        """What is below is gone here for good. If more is gone that is not on disk yet, it will be."""
        start_offset = replica.log.start_offset
        if start_offset == 0:
            return 0
        stored_offset = self._replicas.logs.stored_start(replica)
        if stored_offset >= start_offset:
            return start_offset
        self._to_store[replica] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._store(), name="log-starts")
        return stored_offset

    async def _store(self) -> None:
        while self._to_store:
            waiting, self._to_store = list(self._to_store), {}
            try:
                await self._replicas.logs.store_starts()
            except Refused as refused:
                log.warning("leaders cannot be sent what was deleted here: %s", refused)
                self._to_store.update(dict.fromkeys(waiting))
                await asyncio.sleep(RETRY_S)
                continue
            for replica in waiting:
                self._on_stored(replica)
        self._task = None

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
