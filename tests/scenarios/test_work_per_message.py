"""What a message or a waiting client may cost: no task, timer, log line or sync of its own, no work while waiting."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from chronik.core.types import TopicPartition
from chronik.node.housekeeping import Housekeeping
from chronik.node.net.connection import Connections
from chronik.node.replication.checkpoints import Checkpoints
from chronik.node.routing.dispatch import Dispatch
from tests.scenarios.one_partition import WatchedFiles, first_partition, get, replica_of, send
from tests.unit.api.house_context import WAITING, HouseContext, run
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import FakeTransport
from tests.unit.wire.hot_requests import produce_request

MANY = 1000


@run()
async def test_a_thousand_waiting_fetches_have_one_timer_and_no_task(context: HouseContext) -> None:
    waiting = [get(context, 0, max_wait_ms=500 + number) for number in range(MANY)]

    assert all(asked.raw is WAITING for asked in waiting)
    assert len(context.house.loop.live_timers()) == 1
    assert len(asyncio.all_tasks()) == 1  # this one

    context.house.loop.advance(500 + MANY)
    assert all(first_partition(asked).error_code == 0 for asked in waiting)
    assert context.house.loop.live_timers() == []


@run({"orders": 100})
async def test_a_fetch_of_a_hundred_partitions_waits_for_one_deadline(context: HouseContext) -> None:
    asked = get(context, 0, max_wait_ms=500, partitions=range(100))

    assert asked.raw is WAITING
    assert len(context.house.deadlines._heap) == 1


@run()
async def test_a_watermark_that_moves_wakes_its_readers_without_a_task(context: HouseContext) -> None:
    """All of them in the turn in which it moved, each with the same bytes."""
    waiting = [get(context, 0, max_wait_ms=500) for _ in range(MANY)]
    replica = replica_of(context)
    replica.append(batch_of(2), 1, context.house.clock.now_ms())
    replica.own_safe(2)

    context.house.waiting.moved(replica)

    assert len({bytes(first_partition(asked).records) for asked in waiting}) == 1
    assert len(asyncio.all_tasks()) == 1
    assert [deadline for _, _, deadline in context.house.deadlines._heap if deadline.action is not None] == []


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_thousand_batches_have_one_task_and_no_line_in_the_log(acks: int, caplog: pytest.LogCaptureFixture) -> None:
    @run()
    async def counted(context: HouseContext) -> None:
        with caplog.at_level(logging.DEBUG, logger="chronik"):
            for _ in range(MANY):
                send(context, acks=acks)
            assert len(asyncio.all_tasks()) == 2  # this one, and the one that syncs for all
            assert len(context.house.loop.live_timers()) <= 1
            await context.settle()
        assert [record.getMessage() for record in caplog.records if record.name.startswith("chronik")] == []
        assert replica_of(context).high_watermark == MANY
        assert [deadline for _, _, deadline in context.house.deadlines._heap if deadline.action is not None] == []

    counted()


def test_a_thousand_batches_share_a_few_syncs() -> None:
    files = WatchedFiles()

    @run(files=files)
    async def counted(context: HouseContext) -> None:
        for _ in range(MANY):
            send(context)
        await context.settle()
        assert replica_of(context).high_watermark == MANY
        assert files.rounds <= 2
        assert files.syncs <= 4

    counted()


def test_the_event_loop_never_waits_for_the_disk() -> None:
    """Neither for a sync, nor for bytes that are not in memory."""
    files = WatchedFiles()

    @run(files=files)
    async def watched(context: HouseContext) -> None:
        replica_of(context)  # opening a partition looks at its files
        del files.in_the_loop[:]
        files.is_cached = False
        asked = send(context, bytes(batch_of(3)))
        await context.settle()
        fetched = get(context, 0)
        await context.settle()

        assert asked.raw is not WAITING
        assert first_partition(fetched).records.count(b"value") == 3
        assert files.in_the_loop == []

    watched()


def test_the_event_loop_does_not_wait_for_the_disk_to_take_checkpoints() -> None:
    files = WatchedFiles()

    @run(files=files)
    async def watched(context: HouseContext) -> None:
        send(context)
        await context.settle()
        house = context.house
        del files.in_the_loop[:]
        connections = Connections(cast(Any, None), frame_bytes_max=1, under_way_max=1)

        await Housekeeping(house.image, house.replicas, connections, house.clock, house.metrics).once()

        assert house.metrics.faults == 0
        assert [what for what in files.in_the_loop if not what.startswith("read")] == []
        assert Checkpoints(files).synced == {TopicPartition("orders", 0): 1}

    watched()


def test_a_fetch_at_the_end_does_nothing_while_it_waits() -> None:
    files = WatchedFiles()

    @run(files=files)
    async def watched(context: HouseContext) -> None:
        send(context)
        await context.settle()
        asked = get(context, 1, max_wait_ms=10_000)
        timers, reads = context.house.loop.timers_made, files.reads

        context.house.loop.advance(9_999)
        for _ in range(100):
            await asyncio.sleep(0)

        assert asked.raw is WAITING
        assert (context.house.loop.timers_made, files.reads) == (timers, reads)

    watched()


def test_a_fetch_that_is_woken_and_goes_on_waiting_reads_nothing() -> None:
    files = WatchedFiles()

    @run(files=files)
    async def watched(context: HouseContext) -> None:
        asked = get(context, 0, max_wait_ms=10_000, min_bytes=100_000)
        reads = files.reads
        for _ in range(20):
            send(context)
            await context.settle()

        assert asked.raw is WAITING
        assert files.reads == reads

    watched()


@run()
async def test_requests_begin_without_a_task(context: HouseContext) -> None:
    """A thousand produce requests of one connection, begun in the turn in which they were read."""
    dispatch = Dispatch(context.context, context.house.metrics)
    connections = Connections(dispatch, frame_bytes_max=1_000_000, under_way_max=2 * MANY)
    connection = connections.accept()
    connection.connection_made(cast(Any, FakeTransport()))
    body = produce_request(3, None, 1, 1000, [("orders", [(0, bytes(batch_of()))])])
    request = b"\x00\x00\x00\x03\x00\x00\x00\x09\x00\x01c" + body  # produce, version 3, correlation id 9, client "c"
    for _ in range(MANY):
        frame = len(request).to_bytes(4, "big") + request
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.buffer_updated(len(frame))

    assert replica_of(context).log.end_offset == MANY
    assert len(asyncio.all_tasks()) == 2  # this one, and the one that syncs for all
    await context.settle()
    assert replica_of(context).high_watermark == MANY
    await dispatch.close()
