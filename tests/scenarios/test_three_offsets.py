"""Log start, watermark and next offset: each has one source of truth, and all that tell of it tell the same (L1-L6)."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code
from chronik.core.records.batch import read_header
from chronik.http import views
from tests.scenarios.one_partition import EARLIEST, LATEST, first_partition, get, listed, replica_of, send
from tests.unit.api.house_context import WAITING, HouseContext, run
from tests.unit.core.log.logs import batch_of


def reported_watermarks(context: HouseContext) -> set[int]:
    """The watermark as every part of the node tells it."""
    replica = replica_of(context)
    fetched = first_partition(get(context, replica.log.start_offset))
    return {
        replica.high_watermark,
        listed(context, LATEST),
        fetched.high_watermark,
        fetched.last_stable_offset,
        views.partition(replica).high_watermark,
    }


@run()
async def test_all_who_tell_the_watermark_tell_the_same(context: HouseContext) -> None:
    """In three states: written and not synced, synced, and synced here but not on another in-sync replica."""
    send(context, bytes(batch_of(3)))
    assert reported_watermarks(context) == {0}

    await context.settle()
    assert reported_watermarks(context) == {3}

    replica_of(context).lead(0, 1, (1, 2), (1, 2), 0)
    replica_of(context).follower_fetched(2, 3, 0)
    send(context, bytes(batch_of(2)))
    await context.settle()
    assert (replica_of(context).durable_end_offset, replica_of(context).log.synced_offset) == (5, 5)
    assert reported_watermarks(context) == {3}


@run(is_synced=False)
async def test_with_durability_os_what_was_produced_is_visible_though_nothing_was_synced(context: HouseContext) -> None:
    for acks in (0, 1, -1):
        send(context, bytes(batch_of(2)), acks=acks)

    assert replica_of(context).log.synced_offset == 0
    assert reported_watermarks(context) == {6}
    fetched = first_partition(get(context, 0)).records
    assert read_header(fetched).base_offset == 0
    assert fetched.count(b"value") == 6


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_waiting_fetch_gets_what_is_produced(acks: int, is_synced: bool) -> None:
    @run(is_synced=is_synced)
    async def told(context: HouseContext) -> None:
        waiting = get(context, 0, max_wait_ms=10_000)
        assert waiting.raw is WAITING

        send(context, acks=acks)
        await context.settle()

        assert first_partition(waiting).records.count(b"value") == 1
        assert reported_watermarks(context) == {1}

    told()


@run()
async def test_a_producer_is_answered_when_the_last_record_of_its_batch_is_safe(context: HouseContext) -> None:
    replica = replica_of(context)
    replica.lead(0, 1, (1, 2), (1, 2), 0)
    asked = send(context, bytes(batch_of(3)), acks=-1)
    await context.settle()

    replica.follower_fetched(2, 2, 0)
    context.house.waiting.moved(replica)
    assert asked.raw is WAITING
    retried = send(context, bytes(batch_of(1)), acks=-1)

    replica.follower_fetched(2, 3, 0)
    context.house.waiting.moved(replica)
    assert asked.raw is not WAITING
    assert retried.raw is WAITING
    await context.settle()


@run()
async def test_a_batch_of_one_record_is_not_answered_before_it_is_safe(context: HouseContext) -> None:
    asked = send(context, acks=1)

    assert asked.raw is WAITING
    await context.settle()
    assert asked.raw is not WAITING


@run()
async def test_the_log_start_moves_with_nothing_but_deletion(context: HouseContext) -> None:
    for count in (2, 3):
        send(context, bytes(batch_of(count)))
        await context.settle()
    assert told_starts(context) == {0}

    replica_of(context).delete_records(2)
    send(context, bytes(batch_of(4)))
    await context.settle()

    assert told_starts(context) == {2}
    assert reported_watermarks(context) == {9}


def told_starts(context: HouseContext) -> set[int]:
    replica = replica_of(context)
    return {
        replica.log.start_offset,
        listed(context, EARLIEST),
        first_partition(get(context, replica.high_watermark)).log_start_offset,
        views.partition(replica).log_start_offset,
    }


@pytest.mark.parametrize("offset", [-1, 3, 2**40])
def test_an_offset_out_of_range_is_refused_at_once(offset: int) -> None:
    """An offset out of range is refused at once however long the client would wait."""

    @run()
    async def refused(context: HouseContext) -> None:
        send(context, bytes(batch_of(2)))
        await context.settle()

        asked = get(context, offset, max_wait_ms=10_000)

        assert first_partition(asked).error_code == Code.OFFSET_OUT_OF_RANGE

    refused()
