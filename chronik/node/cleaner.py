"""The log cleaner: compacts the logs of this node, in rounds of its own (`log.cleaner.backoff.ms`).

A round looks at every compacted log, and takes those that are due one after the other, the dirtiest first: as much has
been written to them as `min.cleanable.dirty.ratio` says, or some of it has waited for `max.compaction.lag.ms`. Kafka's
cleaner chooses anew after each log; here one that becomes due meanwhile is for the next round, so no log is compacted
twice in one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing

from chronik.core.errors import Corrupt, Interrupted
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.ports import Clock
from chronik.core.records.steps import Work
from chronik.core.replica.replica import Replica
from chronik.node.replication.replicas import Replicas
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

LOOK_MS_MAX = 5_000  # a backoff that is altered holds so soon
BACKOFF_MS_MIN = 100  # however short it is set
SLICE = 200  # replicas looked at before others get their turn


class Cleaner:
    """One task that compacts."""

    def __init__(self, image: MetadataImage, replicas: Replicas, clock: Clock, metrics: Metrics) -> None:
        self._image = image
        self._replicas = replicas
        self._clock = clock
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._rested_ms = clock.monotonic_ms()  # since when

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="log-cleaner")

    async def stop(self) -> None:
        """Ends it. What it was writing is worth nothing, and removed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _backoff_ms(self) -> int:
        return max(self._image.node_config.upkeep.log_cleaner_backoff_ms, BACKOFF_MS_MIN)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(self._backoff_ms, LOOK_MS_MAX) / 1000)
            try:
                await self.once()
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in the log cleaner")

    async def once(self) -> None:
        """A round, if one is due and the cleaner is switched on."""
        rested_ms = self._clock.monotonic_ms() - self._rested_ms
        if rested_ms >= self._backoff_ms and self._image.node_config.upkeep.log_cleaner_enable:
            await self.clean()
            self._rested_ms = self._clock.monotonic_ms()

    async def clean(self) -> None:
        """Compact every log that is due, the dirtiest first."""
        for replica in await self._due():
            if replica.offline is None and replica.config.may_be_compacted:
                await attempt(self._replicas, replica, self._compact)

    async def _due(self) -> list[Replica]:
        due: list[tuple[float, Replica]] = []

        async def look_at(replica: Replica) -> None:
            dirtiness = replica.log.dirtiness(self._clock.now_ms(), replica.last_stable_offset)
            if dirtiness > 0:
                due.append((dirtiness, replica))

        for count, replica in enumerate(list(self._replicas.held())):
            if count % SLICE == 0:
                await asyncio.sleep(0)
            if replica.offline is None and replica.log.end_offset > 0 and replica.config.may_be_compacted:
                await attempt(self._replicas, replica, look_at)
        due.sort(key=lambda one: -one[0])
        return [replica for _, replica in due]

    async def _compact(self, replica: Replica) -> None:
        """In small steps, so that nothing waits for it; a read meanwhile gets the old files or is planned anew."""
        before = replica.log.size_bytes()
        needed_from = replica.tombstones_needed_from(
            self._clock.monotonic_ms(), self._image.node_config.replication.replica_lag_time_max_ms
        )
        with closing(replica.log.compact(self._clock.now_ms(), replica.last_stable_offset, needed_from)) as steps:
            for step in steps:
                if step is None or isinstance(step, Work):
                    await self._replicas.long_work.wait_for_step(step)
                else:
                    await self._replicas.sync_alone(step)
                if replica.offline is not None:
                    return
        gone = before - replica.log.size_bytes()
        if gone > 0:
            log.info("%s-%d: %d bytes less by compaction", replica.topic, replica.partition, gone)


async def attempt(replicas: Replicas, replica: Replica, work: Callable[[Replica], Awaitable[None]]) -> None:
    """Do this to one log. What goes wrong with its disk is its own affair: the others are cleaned all the same."""
    try:
        await work(replica)
    except OSError as problem:
        log.warning("%s-%d: cleaning: %s", replica.topic, replica.partition, problem)
    except Interrupted as problem:
        replicas.partitions.open_anew(replica, problem)
    except Corrupt as problem:
        replicas.partitions.take_offline(replica, f"cleaning: {problem}")
