"""What a node does by itself, now and then: checkpoints, old segments, forgotten producers, idle connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from chronik.core.config.topic import FOREVER_MS
from chronik.core.errors import Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.ports import Clock
from chronik.core.replica.replica import Replica
from chronik.node.cleaner import attempt
from chronik.node.net.connection import Connections
from chronik.node.replication.replicas import Replicas
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

CHECKPOINT_S = 5.0
SLICE = 200  # replicas looked at before others get their turn


class Housekeeping:
    """One task for all of it."""

    def __init__(
        self, image: MetadataImage, replicas: Replicas, connections: Connections, clock: Clock, metrics: Metrics
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._connections = connections
        self._clock = clock
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._cleaned_ms = clock.monotonic_ms()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="housekeeping")

    async def stop(self) -> None:
        """Ends it, and returns when what was under way is done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            await self.once()

    async def once(self) -> None:
        """Each by itself: on a full disk no checkpoint can be written, and retention is what makes room again."""
        steps = (
            self._flush_aged,
            self._write_checkpoints,
            self._show_indexes,
            self._close_idle,
            self._clean_if_due,
            self._repair_damaged,
        )
        for step in steps:
            try:
                await step()
            except OSError as problem:  # it is tried again in a few seconds
                log.warning("housekeeping: %s", problem)
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in housekeeping")

    async def _flush_aged(self) -> None:
        """Sync what waits for no acknowledgement, in topics that set `flush.ms`."""
        for replica in self._replicas.held():
            log_of = replica.log
            if (
                log_of.config.flush_ms < FOREVER_MS
                and log_of.synced_offset < log_of.end_offset
                and replica.offline is None
            ):
                self._replicas.sync_rounds.due(replica)

    async def _write_checkpoints(self) -> None:
        await self._replicas.logs.store_checkpoints()

    async def _show_indexes(self) -> None:
        """For Kafka's tools, which look at the files of a log that is in use."""
        for count, replica in enumerate(list(self._replicas.held())):
            if count % SLICE == 0:
                await asyncio.sleep(0)
            try:
                if replica.offline is None:
                    replica.log.show_indexes()
            except OSError as problem:  # those of the others are put there all the same
                log.warning("%s-%d: its indexes: %s", replica.topic, replica.partition, problem)

    async def _repair_damaged(self) -> None:
        self._replicas.partitions.repair_damaged()

    async def _close_idle(self) -> None:
        config = self._image.node_config
        self._connections.close_idle(
            config.connections.connections_max_idle_ms / 1000,
            config.connections.chronik_unfinished_request_timeout_ms / 1000,
        )

    async def _clean_if_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._cleaned_ms >= self._image.node_config.upkeep.log_retention_check_interval_ms:
            self._cleaned_ms = now_ms
            await self.clean()

    async def clean(self) -> None:
        """Delete what retention says, forget producers that fell silent. Compaction has its own rounds (`cleaner`)."""
        await self._each(self._expire)
        try:
            await self._replicas.logs.store_starts()
            await self._each(self._remove_deleted)
        except Refused as refused:  # a full disk, perhaps: then to make room counts for more than what a power cut does
            log.warning("segments go all the same: %s", refused)
            await self._each(self._remove_all_deleted)
        await self._each(self._forget_producers)

    async def _each(self, work: Callable[[Replica], Awaitable[None]]) -> None:
        for count, replica in enumerate(list(self._replicas.held())):
            if count % SLICE == 0:
                await asyncio.sleep(0)
            if replica.offline is not None or replica.log.end_offset == 0:
                continue
            await attempt(self._replicas, replica, work)

    async def _expire(self, replica: Replica) -> None:
        """Only where the log starts: that is to be on disk before any file goes."""
        expired = self._replicas.expire(replica, self._clock.now_ms())
        if expired:
            log.info("%s-%d: %d segments deleted by retention", replica.topic, replica.partition, len(expired))

    async def _remove_deleted(self, replica: Replica) -> None:
        replica.log.remove_below(self._replicas.logs.stored_start(replica), self._clock.now_ms())

    async def _remove_all_deleted(self, replica: Replica) -> None:
        replica.log.remove_below(replica.log.start_offset, self._clock.now_ms())

    async def _forget_producers(self, replica: Replica) -> None:
        expiration_ms = self._image.node_config.transactions.producer_id_expiration_ms
        replica.log.producers.expire(self._clock.monotonic_ms(), expiration_ms)
