"""Out of room, descriptors or memory: what needs them is refused, nothing goes offline, and when there is some again
everything is served."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.core.errors import Code, Corrupt, Interrupted, SyncFailed, shortage_of
from chronik.core.ports import Unread
from chronik.core.records.batch import stamp
from chronik.core.replica.replica import Replica
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import House
from tests.unit.node.in_house import ORDERS, plan_of, refusal

pytestmark = pytest.mark.usefixtures("quiet")

SHORTAGES = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM]
DESCRIPTORS_AND_MEMORY = SHORTAGES[2:]
EIO = OSError(errno.EIO, "Input/output error")

Test = Callable[[House, OSError], Coroutine[Any, Any, None]]


def each(numbers: list[int]) -> Callable[[Test], Callable[[int], None]]:
    """The test in a house with the topic 'orders', once for each errno."""

    def decorate(test: Test) -> Callable[[int], None]:
        async def in_house(number: int) -> None:
            await test(House(topics=ORDERS), OSError(number, os.strerror(number)))

        @pytest.mark.parametrize("number", numbers, ids=lambda number: errno.errorcode[number])
        def wrapped(number: int) -> None:
            asyncio.run(in_house(number))

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


def test_a_shortage_is_told_from_a_failure() -> None:
    assert all(shortage_of(OSError(number, "")) is not None for number in SHORTAGES)
    assert shortage_of(EIO) is None
    assert shortage_of(Corrupt("a file", "a bad batch")) is None
    assert shortage_of(OSError("without a number")) is None


def test_a_sync_that_began_and_failed_is_final_whatever_its_number() -> None:
    assert not any(shortage_of(SyncFailed(number, "")) for number in SHORTAGES)


@each(SHORTAGES)
async def test_a_batch_is_refused_and_the_next_is_taken(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(), 1)
    house.files.failures["write"] = shortage

    assert refusal(lambda: house.replicas.append(replica, batch_of(), 1)) == Code.KAFKA_STORAGE_ERROR
    assert replica.offline is None
    assert house.replicas.shortage is not None
    house.files.failures.clear()
    house.replicas.append(replica, batch_of(), 1)
    await house.settle()

    assert replica.high_watermark == 2
    assert house.replicas.shortage is None


@each(SHORTAGES)
async def test_the_first_batch_of_a_partition_may_meet_it_too(house: House, shortage: OSError) -> None:
    house.files.failures["write"] = shortage
    replica = house.replicas.leader("orders", 0)

    assert refusal(lambda: house.replicas.append(replica, batch_of(), 1)) == Code.KAFKA_STORAGE_ERROR
    house.files.failures.clear()
    house.replicas.append(replica, batch_of(), 1)
    await house.settle()

    assert (replica.high_watermark, house.replicas.partitions.offline()) == (1, {})


@each(SHORTAGES)
async def test_a_follower_fetches_again_what_it_could_not_write(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    replica.follow(2, 1, 1)
    batch = batch_of()
    stamp(batch, base_offset=0, leader_epoch=1)
    house.files.failures["write"] = shortage

    assert not house.replicas.append_as_follower(replica, batch)
    assert replica.offline is None
    house.files.failures.clear()
    assert house.replicas.append_as_follower(replica, batch)


@each(SHORTAGES)
async def test_what_cannot_be_opened_now_is_opened_when_it_is_asked_for_again(house: House, shortage: OSError) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()
    again = House(house.files, ORDERS)
    house.files.failures["read"] = shortage

    assert refusal(lambda: again.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR
    assert again.replicas.partitions.is_put_off("orders", 0)
    assert not again.replicas.partitions.is_damaged("orders", 0)
    house.files.failures.clear()

    assert again.replicas.leader("orders", 0).log.end_offset == 1
    assert again.replicas.partitions.offline() == {}


@each(SHORTAGES)
async def test_what_cannot_be_read_now_is_neither_damaged_nor_offline(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    batch = batch_of()
    house.replicas.append(replica, batch, 1)
    await house.settle()
    plan = plan_of(replica)
    house.files.failures["read"] = shortage

    for content in (house.replicas.read_cached(plan), await house.replicas.wait_for_read(plan)):
        assert isinstance(content, Unread)
        assert house.replicas.check_read(replica, plan, content) == Code.KAFKA_STORAGE_ERROR
    assert (replica.offline, house.replicas.partitions.is_damaged("orders", 0)) == (None, False)
    house.files.failures.clear()
    content = house.replicas.read_cached(plan)

    assert content == bytes(batch)
    assert house.replicas.check_read(replica, plan, content) == Code.NONE


def test_a_read_that_the_disk_fails_takes_it_offline() -> None:
    """A read that the disk fails takes it offline and says nothing about its bytes. A copy that is taken for damaged is
    moved aside, and what may be its only sound record with it."""

    async def run() -> None:
        house = House(topics=ORDERS)
        replica = house.replicas.leader("orders", 0)
        house.replicas.append(replica, batch_of(), 1)
        await house.settle()
        plan = plan_of(replica)
        house.files.failures["read"] = EIO

        content = house.replicas.read_cached(plan)

        assert content is not None
        assert house.replicas.check_read(replica, plan, content) == Code.KAFKA_STORAGE_ERROR
        assert replica.offline is not None
        assert not house.replicas.partitions.is_damaged("orders", 0)

    asyncio.run(run())


@each(DESCRIPTORS_AND_MEMORY)
async def test_a_sync_that_cannot_begin_is_tried_until_it_can(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    told = asyncio.get_running_loop().create_future()
    house.files.failures["sync"] = shortage
    house.replicas.append(replica, batch_of(), 1)
    house.waiting.when_safe(replica, 1, 1, -1, told.set_result)
    await house.settle()
    assert (told.done(), replica.offline, replica.high_watermark) == (False, None, 0)

    house.files.failures.clear()

    assert await told == Code.NONE
    assert replica.high_watermark == 1


@each(DESCRIPTORS_AND_MEMORY)
async def test_a_sync_that_failed_is_never_tried_again(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    house.files.failures["sync"] = SyncFailed(shortage.errno, "failed")
    house.replicas.append(replica, batch_of(), 1)
    await house.settle()

    assert replica.offline is not None
    assert not house.replicas.sync_rounds.is_put_off


@each(DESCRIPTORS_AND_MEMORY)
async def test_what_was_put_off_is_given_up_at_the_stop(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    house.files.failures["sync"] = shortage
    house.replicas.append(replica, batch_of(), 1)
    await house.settle()
    assert house.replicas.sync_rounds.is_put_off

    house.replicas.sync_rounds.close()

    assert not house.replicas.sync_rounds.is_put_off


# --- changes of several files


@each(SHORTAGES)
async def test_a_cut_that_stopped_half_way_is_finished_when_the_log_is_opened_anew(
    house: House, shortage: OSError
) -> None:
    replica = house.replicas.leader("orders", 0)
    for _ in range(3):
        house.replicas.append(replica, batch_of(), 1)
    await house.settle()
    replica.follow(2, 1, 1)
    house.files.failures["write:leader-epoch-checkpoint"] = shortage

    assert house.replicas.cut([(replica, 1, False)])
    assert house.replicas.partitions.is_put_off("orders", 0)
    house.files.failures.clear()
    again = house.replicas.leader("orders", 0)

    assert again is not replica
    assert (again.log.end_offset, house.replicas.partitions.offline()) == (1, {})


class Reopening:
    """A fetch that waits, and asks for its partition again when it is woken."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.found: Replica | None = None

    def wake(self) -> None:
        self.found = self._house.replicas.leader("orders", 0)


@each(SHORTAGES)
async def test_what_is_opened_anew_has_all_that_it_had(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(producer_id=7, sequence=0), 1)
    await house.settle()
    house.replicas.append(replica, batch_of(producer_id=7, sequence=1), 1)  # and its sync is under way
    codes: list[Code] = []
    house.waiting.when_safe(replica, 2, 1, -1, codes.append)

    house.replicas.partitions.open_anew(replica, Interrupted("compaction", shortage))
    again = house.replicas.leader("orders", 0)
    await house.settle()

    assert codes == [Code.KAFKA_STORAGE_ERROR]
    assert (again.log.end_offset, again.log.synced_offset, again.high_watermark) == (2, 2, 2)
    assert not house.replicas.append(again, batch_of(producer_id=7, sequence=1), 1).is_new


@each(SHORTAGES)
async def test_a_reader_that_opens_it_again_at_once_has_the_only_replica(house: House, shortage: OSError) -> None:
    """F10: two replicas of a partition on one node could give one offset to two batches."""
    replica = house.replicas.leader("orders", 0)
    reader = Reopening(house)
    house.waiting.when_readable([replica], reader)

    house.replicas.partitions.open_anew(replica, Interrupted("compaction", shortage))

    assert reader.found is not None
    assert house.replicas.leader("orders", 0) is reader.found


@each(SHORTAGES)
async def test_a_batch_that_cannot_be_recalled_now_is_still_known_when_it_can(house: House, shortage: OSError) -> None:
    replica = house.replicas.leader("orders", 0)
    for sequence in range(3):
        house.replicas.append(replica, batch_of(producer_id=7, sequence=sequence), 1)
    await house.settle()
    house.replicas.logs.close_all()
    again = House(house.files, ORDERS).replicas
    replica = again.leader("orders", 0)
    (producer,) = replica.log.producers.states()
    producer.is_recalled = False
    while len(producer.batches) > 1:
        producer.batches.popleft()
    house.files.failures["read"] = shortage
    retried = batch_of(producer_id=7, sequence=0)

    assert refusal(lambda: again.append(replica, retried, 1)) == Code.KAFKA_STORAGE_ERROR
    house.files.failures.clear()

    assert not again.append(replica, retried, 1).is_new


def test_a_change_that_the_disk_stopped_half_way_leaves_it_offline() -> None:
    async def run() -> None:
        house = House(topics=ORDERS)
        replica = house.replicas.leader("orders", 0)

        house.replicas.partitions.open_anew(replica, Interrupted("compaction", EIO))

        assert replica.offline is not None
        assert refusal(lambda: house.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR
        assert not house.replicas.partitions.is_put_off("orders", 0)

    asyncio.run(run())
