"""Log start, watermark and next offset: each has one source of truth, and all who tell of it tell the same (L1-L6)."""

from __future__ import annotations

import pytest

from chronik.console import views
from chronik.core.errors import Code
from chronik.core.records.batch import read_header
from tests.scenarios.one_partition import EARLIEST, LATEST, first_partition, get, listed, replica_of, send
from tests.unit.api.house_desk import WAITING, HouseDesk, run
from tests.unit.core.log.logs import batch_of


def told_watermarks(desk: HouseDesk) -> set[int]:
    """The watermark as every part of the node tells it."""
    replica = replica_of(desk)
    fetched = first_partition(get(desk, replica.log.start_offset))
    return {
        replica.high_watermark,
        listed(desk, LATEST),
        fetched.high_watermark,
        fetched.last_stable_offset,
        views.partition(replica).high_watermark,
    }


@run()
async def test_all_who_tell_the_watermark_tell_the_same(desk: HouseDesk) -> None:
    """In three states: written and not synced, synced, and synced here but not on another in-sync replica."""
    send(desk, bytes(batch_of(3)))
    assert told_watermarks(desk) == {0}

    await desk.settle()
    assert told_watermarks(desk) == {3}

    replica_of(desk).lead(0, 1, (1, 2), (1, 2), 0)
    replica_of(desk).follower_fetched(2, 3, 0)
    send(desk, bytes(batch_of(2)))
    await desk.settle()
    assert (replica_of(desk).safe_end, replica_of(desk).log.synced_offset) == (5, 5)
    assert told_watermarks(desk) == {3}


@run(is_synced=False)
async def test_with_durability_os_what_was_produced_is_visible_though_nothing_was_synced(desk: HouseDesk) -> None:
    for acks in (0, 1, -1):
        send(desk, bytes(batch_of(2)), acks=acks)

    assert replica_of(desk).log.synced_offset == 0
    assert told_watermarks(desk) == {6}
    fetched = first_partition(get(desk, 0)).records
    assert read_header(fetched).base_offset == 0
    assert fetched.count(b"value") == 6


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_waiting_fetch_gets_what_is_produced(acks: int, is_synced: bool) -> None:
    @run(is_synced=is_synced)
    async def told(desk: HouseDesk) -> None:
        waiting = get(desk, 0, max_wait_ms=10_000)
        assert waiting.raw is WAITING

        send(desk, acks=acks)
        await desk.settle()

        assert first_partition(waiting).records.count(b"value") == 1
        assert told_watermarks(desk) == {1}

    told()


@run()
async def test_a_producer_is_answered_when_the_last_record_of_its_batch_is_safe(desk: HouseDesk) -> None:
    replica = replica_of(desk)
    replica.lead(0, 1, (1, 2), (1, 2), 0)
    asked = send(desk, bytes(batch_of(3)), acks=-1)
    await desk.settle()

    replica.follower_fetched(2, 2, 0)
    desk.house.waiting.moved(replica)
    assert asked.raw is WAITING
    retried = send(desk, bytes(batch_of(1)), acks=-1)

    replica.follower_fetched(2, 3, 0)
    desk.house.waiting.moved(replica)
    assert asked.raw is not WAITING
    assert retried.raw is WAITING
    await desk.settle()


@run()
async def test_a_batch_of_one_record_is_not_answered_before_it_is_safe(desk: HouseDesk) -> None:
    asked = send(desk, acks=1)

    assert asked.raw is WAITING
    await desk.settle()
    assert asked.raw is not WAITING


@run()
async def test_the_log_start_moves_with_nothing_but_deletion(desk: HouseDesk) -> None:
    for count in (2, 3):
        send(desk, bytes(batch_of(count)))
        await desk.settle()
    assert told_starts(desk) == {0}

    replica_of(desk).delete_records(2)
    send(desk, bytes(batch_of(4)))
    await desk.settle()

    assert told_starts(desk) == {2}
    assert told_watermarks(desk) == {9}


def told_starts(desk: HouseDesk) -> set[int]:
    replica = replica_of(desk)
    return {
        replica.log.start_offset,
        listed(desk, EARLIEST),
        first_partition(get(desk, replica.high_watermark)).log_start_offset,
        views.partition(replica).log_start_offset,
    }


@pytest.mark.parametrize("offset", [-1, 3, 2**40])
def test_an_offset_out_of_range_is_refused_at_once_however_long_the_client_would_wait(offset: int) -> None:
    @run()
    async def refused(desk: HouseDesk) -> None:
        send(desk, bytes(batch_of(2)))
        await desk.settle()

        asked = get(desk, offset, max_wait_ms=10_000)

        assert first_partition(asked).error_code == Code.OFFSET_OUT_OF_RANGE

    refused()
