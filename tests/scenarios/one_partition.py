"""A partition with real replicas over files in memory, as producers and consumers see it through their requests."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Sequence
from typing import Any, cast

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from chronik.api import fetch, list_offsets, produce
from chronik.api.context import Caller
from chronik.core.ports import File
from chronik.core.replica.replica import Replica
from chronik.core.types import Buffer
from chronik.wire.fetch import FetchPartition, FetchRequest
from tests.unit.api.house_context import WAITING, Asked, HouseContext
from tests.unit.core.fakes import MemoryFile, MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.wire.hot_requests import fetch_request, produce_request

FETCH_VERSION, PRODUCE_VERSION, LIST_OFFSETS_VERSION = 12, 12, 11
LATEST, EARLIEST = -1, -2


class WatchedFiles(MemoryFiles):
    """Counts syncs and rounds of them, and knows whether the event loop itself is at the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.rounds = 0
        self.in_the_loop: list[str] = []  # what was done while everyone else had to wait
        self._is_elsewhere = False

    def before_sync(self, path: str) -> None:
        self.syncs += 1
        if not self._is_elsewhere:
            self.in_the_loop.append(f"sync {path}")
        super().before_sync(path)

    def before_read(self, path: str) -> None:
        if not self._is_elsewhere:
            self.in_the_loop.append(f"read {path}")
        super().before_read(path)

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        if sync and not self._is_elsewhere:
            self.in_the_loop.append(f"replace {path}")
        super().replace(path, content, sync)

    async def _replace(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None) -> None:
        await asyncio.sleep(0)
        self._is_elsewhere = True
        try:
            await super()._replace(path, content, is_wanted)
        finally:
            self._is_elsewhere = False

    async def _sync_all(self, files: Sequence[File]) -> list[OSError | None]:
        await asyncio.sleep(0)  # as long as it takes, others go on
        self.rounds += 1
        self._is_elsewhere = True
        try:
            return await super()._sync_all(files)
        finally:
            self._is_elsewhere = False

    async def _read(self, file: File, position: int, length: int) -> bytes:
        await asyncio.sleep(0)
        self._is_elsewhere = True
        try:
            return cast(MemoryFile, file).read(position, length)
        finally:
            self._is_elsewhere = False


def send(context: HouseContext, records: bytes | None = None, *, acks: int = 1, topic: str = "orders") -> Asked:
    batch = bytes(batch_of()) if records is None else records
    return context.ask(
        produce, PRODUCE_VERSION, produce_request(PRODUCE_VERSION, None, acks, 1000, [(topic, [(0, batch)])])
    )


def get(
    context: HouseContext,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partitions: Sequence[int] = (0,),
    topic: str = "orders",
) -> Asked:
    wanted = [FetchPartition(topic, partition, offset, 1_000_000, -1) for partition in partitions]
    request = FetchRequest(-1, max_wait_ms, min_bytes, 50_000_000, 0, 0, -1, wanted, [])
    return context.ask(fetch, FETCH_VERSION, fetch_request(FETCH_VERSION, request))


def first_partition(asked: Asked) -> Any:
    assert asked.raw is not WAITING, "not answered yet"
    return asked.response.responses[0].partitions[0]


def listed(context: HouseContext, timestamp: int) -> int:
    """What ListOffsets says."""
    wanted = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(ListOffsetsTopic(name="orders", partitions=(wanted,)),),
        timeout=datetime.timedelta(0),
    )
    answer = list_offsets.handle(request, Caller("test", "10.0.0.7", LIST_OFFSETS_VERSION, 1), context.context)
    [found] = answer.topics[0].partitions
    assert found.error_code == 0
    return int(found.offset)


def replica_of(context: HouseContext) -> Replica:
    return context.house.replicas.leader("orders", 0)
