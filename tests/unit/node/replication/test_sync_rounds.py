"""One sync for all that waits, and what happens when it fails."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.core.ports import File
from chronik.core.replica.replica import Replica
from chronik.node.observe.trace_store import is_sync_awaited
from chronik.node.replication.sync_rounds import GroupCommit, SyncRounds
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NOW_MS, memory_replica


class SlowDisk(MemoryFiles):
    """Syncs end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[list[str]] = []
        self.gate = asyncio.Event()
        self.broken: set[str] = set()
        self.bug: Exception | None = None

    async def _slowly(self, files: Sequence[File]) -> list[OSError | None]:
        self.syncs.append([file.path for file in files])
        await self.gate.wait()
        self.gate.clear()
        if self.bug is not None:
            raise self.bug
        return [OSError(errno.EIO, "broken", file.path) if file.path in self.broken else None for file in files]

    def sync_later(self, files: Sequence[File]) -> Awaitable[list[OSError | None]]:
        return self._slowly(files)

    async def finish_sync(self) -> None:
        self.gate.set()
        for _ in range(5):
            await asyncio.sleep(0)


class Disk:
    """A disk with replicas, and what group commit said of them."""

    def __init__(self) -> None:
        self.files = SlowDisk()
        self.moved: list[Replica] = []
        self.failed: list[tuple[Replica, Exception]] = []
        self.stored = 0  # how often recovery points were
        self.full: OSError | None = None
        self.may_store = asyncio.Event()
        self.may_store.set()
        self.commits = GroupCommit(cast(Any, self.files), self.moved.append, self._failed, self._store)

    async def _store(self) -> None:
        await self.may_store.wait()
        if self.full is not None:
            raise self.full
        self.stored += 1

    def _failed(self, replica: Replica, problem: Exception) -> None:
        self.failed.append((replica, problem))
        replica.take_offline(str(problem))

    def replica(self, topic: str = "topic", *, is_synced: bool = True) -> Replica:
        return memory_replica(self.files, topic, is_synced=is_synced)

    def write(self, *replicas: Replica) -> None:
        for replica in replicas:
            replica.append(batch_of(), 1, NOW_MS)
            self.commits.due(replica)


def run(test: Callable[[Disk], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_disk() -> None:
        await test(Disk())

    def wrapped() -> None:
        asyncio.run(with_disk())

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_nothing_is_safe_before_the_sync_is_over(disk: Disk) -> None:
    replica = disk.replica()
    disk.write(replica)
    await asyncio.sleep(0)
    assert (replica.high_watermark, replica.log.end_offset, disk.moved) == (0, 1, [])

    await disk.files.finish_sync()

    assert (replica.high_watermark, replica.log.synced_offset, disk.moved) == (1, 1, [replica])


@run
async def test_all_that_wait_share_one_sync(disk: Disk) -> None:
    replicas = [disk.replica(f"t{number}") for number in range(5)]
    disk.write(*replicas, *replicas, replicas[0])
    await asyncio.sleep(0)

    await disk.files.finish_sync()

    assert len(disk.files.syncs) == disk.commits.rounds == 1
    assert disk.moved == replicas
    assert [replica.high_watermark for replica in replicas] == [3, 2, 2, 2, 2]


@run
async def test_what_comes_during_a_sync_goes_with_the_next(disk: Disk) -> None:
    """The sync that runs may have begun before the bytes were there: it proves nothing about them."""
    first, second = disk.replica("one"), disk.replica("two")
    disk.write(first)
    await asyncio.sleep(0)
    disk.write(first, second)

    await disk.files.finish_sync()
    assert (first.high_watermark, second.high_watermark) == (1, 0)
    await disk.files.finish_sync()

    assert (first.high_watermark, second.high_watermark) == (2, 1)
    assert disk.commits.rounds == 2


@run
async def test_when_all_is_done_no_task_is_left(disk: Disk) -> None:
    disk.write(disk.replica())
    await asyncio.sleep(0)
    await disk.files.finish_sync()

    await disk.commits.wait_until_idle()

    assert asyncio.all_tasks() == {asyncio.current_task()}


@run
async def test_waiting_until_idle_waits_for_rounds_that_follow(disk: Disk) -> None:
    replica = disk.replica()
    disk.write(replica)
    await asyncio.sleep(0)
    disk.write(replica)
    waiting = asyncio.ensure_future(disk.commits.wait_until_idle())
    await disk.files.finish_sync()
    assert not waiting.done()

    await disk.files.finish_sync()
    await waiting

    assert replica.high_watermark == 2


@run
async def test_a_failed_sync_takes_only_its_own_replica_down(disk: Disk) -> None:
    good, bad = disk.replica("good"), disk.replica("bad")
    disk.write(bad, good)
    disk.files.broken.add("bad-0/00000000000000000000.log")
    await asyncio.sleep(0)

    await disk.files.finish_sync()

    assert [replica for replica, _ in disk.failed] == [bad]
    assert (bad.high_watermark, bad.log.synced_offset) == (0, 0)
    assert (good.high_watermark, disk.moved) == (1, [good])


@run
async def test_a_failed_sync_is_never_made_good_by_a_second_one(disk: Disk) -> None:
    """The kernel may have dropped the pages: the second sync would say that all is well."""
    bad = disk.replica("bad")
    disk.write(bad)
    disk.files.broken.add("bad-0/00000000000000000000.log")
    await asyncio.sleep(0)
    await disk.files.finish_sync()
    assert bad.offline is not None

    disk.files.broken.clear()
    disk.commits.due(bad)
    await asyncio.sleep(0)
    await disk.files.finish_sync()

    assert (bad.high_watermark, disk.moved) == (0, [])


@run
async def test_a_fault_in_a_sync_leaves_nobody_waiting(disk: Disk) -> None:
    logging.disable(logging.ERROR)
    replica = disk.replica()
    disk.write(replica)
    disk.files.bug = RuntimeError("a bug")
    await asyncio.sleep(0)
    await disk.files.finish_sync()
    logging.disable(logging.NOTSET)
    assert [str(problem) for _, problem in disk.failed] == ["a bug"]

    disk.files.bug = None
    other = disk.replica("other")
    disk.write(other)
    await asyncio.sleep(0)
    await disk.files.finish_sync()

    assert other.high_watermark == 1


@run
async def test_a_replica_that_went_offline_meanwhile_does_not_move(disk: Disk) -> None:
    replica = disk.replica()
    disk.write(replica)
    await asyncio.sleep(0)
    replica.take_offline("deleted")

    await disk.files.finish_sync()

    assert (replica.high_watermark, disk.moved) == (0, [])


@run
async def test_with_durability_os_the_sync_moves_no_watermark(disk: Disk) -> None:
    replica = disk.replica(is_synced=False)
    disk.write(replica)
    await asyncio.sleep(0)
    assert replica.high_watermark == 1

    await disk.files.finish_sync()

    assert replica.log.synced_offset == 1
    assert disk.moved == []


@pytest.mark.parametrize("writers", [1, 10, 200])
def test_the_number_of_syncs_does_not_grow_with_the_number_of_writers(writers: int) -> None:
    async def write_twice() -> int:
        disk = Disk()
        replicas = [disk.replica(f"t{number}") for number in range(writers)]
        disk.write(*replicas)
        await asyncio.sleep(0)
        disk.write(*replicas)
        await disk.files.finish_sync()
        await disk.files.finish_sync()
        assert all(replica.high_watermark == 2 for replica in replicas)
        return disk.commits.rounds

    assert asyncio.run(write_twice()) == 2


def rolled(disk: Disk) -> Replica:
    """Its log has begun a second segment, and nothing is synced."""
    replica = memory_replica(disk.files, "topic", is_synced=True, config=TopicConfig(segment_bytes=100))
    disk.write(replica, replica)
    return replica


@run
async def test_what_is_in_a_new_segment_is_safe_when_the_recovery_point_is_stored(disk: Disk) -> None:
    # Given a log that begins its second segment, and another
    other = disk.replica("other")
    disk.write(other)
    replica = rolled(disk)
    disk.may_store.clear()
    await asyncio.sleep(0)

    # When both are synced, then what is in the second segment waits
    await disk.files.finish_sync()
    assert (other.high_watermark, replica.high_watermark, replica.log.synced_offset) == (1, 0, 0)
    assert replica.log.recovery_point.offset == 2

    # Until it is stored that all before it is on disk; and that is once for a segment
    disk.may_store.set()
    await disk.commits.wait_until_idle()
    assert (replica.high_watermark, replica.log.synced_offset, disk.stored) == (2, 2, 1)


@run
async def test_a_recovery_point_that_cannot_be_stored_is_stored_later(disk: Disk) -> None:
    """A recovery point that cannot be stored is stored later and takes nothing offline."""
    replica = rolled(disk)
    disk.full = OSError(errno.ENOSPC, "No space left on device")
    await asyncio.sleep(0)
    await disk.files.finish_sync()
    assert (replica.high_watermark, disk.failed) == (0, [])

    disk.full = None
    disk.files.gate.set()
    disk.commits.due(replica)  # as its timer does
    await disk.commits.wait_until_idle()

    assert (replica.high_watermark, replica.offline, disk.stored) == (2, None, 1)


@run
async def test_what_was_cut_while_the_recovery_point_was_stored_is_synced_anew(disk: Disk) -> None:
    replica = rolled(disk)
    disk.may_store.clear()
    await asyncio.sleep(0)
    await disk.files.finish_sync()

    replica.log.truncate_to(1)
    disk.may_store.set()
    disk.files.gate.set()
    await disk.commits.wait_until_idle()

    assert (replica.log.synced_offset, replica.log.end_offset) == (1, 1)


@run
async def test_the_trace_is_synced_beside_the_others_and_not_with_them(disk: Disk) -> None:
    commits = SyncRounds(
        cast(Any, disk.files), disk.moved.append, disk._failed, disk._store, is_awaited=is_sync_awaited
    )
    replica, trace = disk.replica(), disk.replica(TRACE_TOPIC)
    for written in (trace, replica, trace):
        written.append(batch_of(), 1, NOW_MS)
        commits.due(written)
    await asyncio.sleep(0)
    assert [{path.split("-")[0] for path in paths} for paths in disk.files.syncs] == [{"topic"}]
    await disk.files.finish_sync()
    assert (replica.high_watermark, trace.high_watermark) == (1, 0)

    disk.files.gate.set()  # for the sync that comes a moment later
    await commits.wait_until_idle()

    assert (replica.high_watermark, trace.high_watermark, commits.rounds) == (1, 2, 2)
