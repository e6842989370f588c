"""What a node does by itself, and that nothing keeps it from the rest."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest

from chronik.core.records.batch import accept
from chronik.core.types import TopicPartition
from chronik.node.housekeeping import Housekeeping
from chronik.node.net.connection import Connections
from chronik.node.replication.checkpoints import Checkpoints
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NOW_MS, House

ENOSPC = OSError(errno.ENOSPC, "No space left on device")
HOUR_MS = 3_600_000


class FakeNode:
    """As much of a node as housekeeping needs."""

    def __init__(self, *, is_synced: bool = True) -> None:
        self.house = House(is_synced=is_synced)
        self.replicas = self.house.replicas
        self.metrics = self.house.metrics
        self.image = self.house.image
        self.idle_checks: list[tuple[float, float]] = []
        self.connections = cast(Connections, self)
        self.housekeeping = Housekeeping(self.image, self.replicas, self.connections, self.house.clock, self.metrics)

    def close_idle(self, idle_s: float, unfinished_s: float) -> None:
        self.idle_checks.append((idle_s, unfinished_s))

    def fill(self, topic: str, batches: int = 3) -> None:
        """Segments of one batch each, of an hour that is long gone."""
        self.house.create(topic, retention_ms="1000", segment_bytes="1048576")
        replica = self.replicas.leader(topic, 0)
        for _ in range(batches):
            self.replicas.append(replica, batch_of(value=bytes(900_000), time_ms=NOW_MS), 1)

    def starts(self) -> list[int]:
        return [replica.log.start_offset for replica in self.replicas.held()]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run(test: Callable[[FakeNode], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_node() -> None:
        await test(FakeNode())

    def wrapped() -> None:
        asyncio.run(with_node())

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_checkpoints_are_written_and_idle_connections_looked_for(node: FakeNode) -> None:
    node.fill("t")
    await node.house.settle()

    await node.housekeeping.once()

    assert Checkpoints(cast(Any, node.house.files)).synced == {TopicPartition("t", 0): 3}
    assert node.idle_checks == [(600.0, 30.0)]


@run
async def test_retention_deletes_what_is_old_once_its_time_has_come(node: FakeNode) -> None:
    node.fill("t")
    await node.house.settle()
    await node.housekeeping.once()
    assert node.starts() == [0]

    node.house.clock.advance(HOUR_MS)
    await node.housekeeping.once()

    assert node.starts() == [3]


@run
async def test_where_a_log_starts_is_on_disk_before_a_file_goes(node: FakeNode) -> None:
    """Else a power cut could bring some files back and others not, and the log would have a hole."""
    node.fill("t")
    await node.house.settle()
    node.house.clock.advance(HOUR_MS)
    files, seen = node.house.files, list[int]()
    remove = files.remove

    def watched(path: str) -> None:
        if path.endswith(".log"):
            seen.append(Checkpoints(cast(Any, files)).starts.get(TopicPartition("t", 0), 0))
        remove(path)

    files.remove = watched  # type: ignore[method-assign]
    await node.housekeeping.once()

    assert seen == [3, 3, 3]


@run
async def test_what_nobody_waits_for_is_synced_where_a_topic_limits_its_age(node: FakeNode) -> None:
    node.house.create("aged", flush_ms="1000")
    node.house.create("other")
    logs = [node.replicas.leader(topic, 0).log for topic in ("aged", "other")]
    for log in logs:
        batch = batch_of()
        log.append(batch, accept(batch), 0, NOW_MS)

    await node.housekeeping.once()
    await node.house.settle()

    assert [log.synced_offset for log in logs] == [1, 0]


@run
async def test_on_a_full_disk_retention_still_makes_room(node: FakeNode) -> None:
    node.fill("t")
    await node.house.settle()
    node.house.clock.advance(HOUR_MS)
    node.house.files.failures["write:checkpoint"] = ENOSPC

    await node.housekeeping.once()

    assert node.starts() == [3]


@run
async def test_a_partition_whose_files_cannot_be_removed_does_not_hold_back_the_others(node: FakeNode) -> None:
    node.fill("a")
    node.fill("b")
    await node.house.settle()
    node.house.clock.advance(HOUR_MS)
    node.house.files.failures["write:a-0/00000000000000000003.log"] = OSError(errno.EIO, "broken")

    await node.housekeeping.clean()

    assert node.starts()[1] == 3


@run
async def test_what_was_written_and_not_synced_is_synced_in_topics_that_set_flush_ms(default: FakeNode) -> None:
    node = type(default)(is_synced=False)
    node.house.create("lazy")
    node.house.create("timed", flush_ms="1000")
    for topic in ("lazy", "timed"):
        node.replicas.append(node.replicas.leader(topic, 0), batch_of(), 1)

    await node.housekeeping.once()
    await node.house.settle()

    assert [replica.log.synced_offset for replica in node.replicas.held()] == [0, 1]


@run
async def test_what_is_not_safe_is_not_deleted(node: FakeNode) -> None:
    node.fill("t")
    node.house.clock.advance(HOUR_MS)

    assert node.replicas.expire(node.replicas.leader("t", 0), node.house.clock.now_ms()) == []

    assert node.starts() == [0]
    await node.house.settle()


@run
async def test_a_fault_is_counted_and_the_rest_is_done(node: FakeNode) -> None:
    def fail(idle_s: float, unfinished_s: float) -> None:
        raise RuntimeError("a bug")

    node.fill("t")
    await node.house.settle()
    node.house.clock.advance(HOUR_MS)
    node.close_idle = fail  # type: ignore[method-assign]

    await node.housekeeping.once()

    assert node.metrics.faults == 1
    assert node.starts() == [3]


@run
async def test_replicas_that_are_offline_are_left_alone(node: FakeNode) -> None:
    node.fill("t")
    await node.house.settle()
    node.replicas.partitions.take_offline(node.replicas.leader("t", 0), "broken")
    node.house.clock.advance(HOUR_MS)

    await node.housekeeping.clean()

    assert node.starts() == [0]


@run
async def test_it_stops_when_it_is_told_to(node: FakeNode) -> None:
    node.housekeeping.start()
    await asyncio.sleep(0)

    await node.housekeeping.stop()
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}


DAY_MS = 24 * 3600 * 1000


@run
async def test_a_backfill_keeps_its_producer_through_cleaning_and_its_retry_is_recognised(node: FakeNode) -> None:
    node.house.create("orders", retention_ms="-1")
    replica = node.replicas.leader("orders", 0)
    backfill = batch_of(time_ms=NOW_MS - 2 * DAY_MS, producer_id=7, sequence=0)
    assert node.replicas.append(replica, bytearray(backfill), 1).is_new
    for _ in range(3):
        await node.housekeeping.clean()

    assert not node.replicas.append(replica, bytearray(backfill), 1).is_new


@run
async def test_a_clock_that_jumps_a_day_forgets_no_producer(node: FakeNode) -> None:
    node.house.create("orders", retention_ms="-1")
    replica = node.replicas.leader("orders", 0)
    node.replicas.append(replica, batch_of(producer_id=7, sequence=0), 1)
    await node.housekeeping.clean()
    node.house.clock.wall_ms += 2 * DAY_MS
    await node.housekeeping.clean()
    assert len(replica.log.producers) == 1

    node.house.clock.advance(2 * DAY_MS)  # this time it has been silent
    await node.housekeeping.clean()
    assert len(replica.log.producers) == 0


@run
async def test_the_indexes_of_logs_in_use_are_put_on_disk(
    node: FakeNode,
) -> None:
    """The indexes of logs in use are put on disk and one that fails keeps no other from it."""
    for topic in ("a", "b"):
        node.fill(topic, batches=1)
    files = node.house.files
    failing, other = (f"{replica.log.directory}/{0:020}.index" for replica in node.replicas.held())
    files.failures[f"write:{failing}"] = ENOSPC

    await node.housekeeping.once()

    assert (files.exists(failing), files.exists(other)) == (False, True)
