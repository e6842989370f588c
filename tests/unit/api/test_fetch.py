"""Fetch: whole batches below the watermark, within the limits, in turn, now or when there is enough."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from chronik.api import fetch
from chronik.api.context import Caller
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import DeleteTopics, TopicToDelete
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.framing import RequestHeader
from tests.unit.api.calls import call_of
from tests.unit.api.fetching import MAX_BYTES, code_of, get, partitions_of, put, records_of
from tests.unit.api.house_context import WAITING, Asked, HouseContext, run
from tests.unit.wire.hot_requests import fetch_request

EVERY_VERSION = range(4, 19)
EIO = OSError(errno.EIO, "Input/output error")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


# --- what is read


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_batches_come_byte_for_byte_as_they_were_produced(version: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        batches = put(context, 3, 1, 2)
        await context.settle()
        topic: Any = context.house.image.topics["orders"].id if version >= 13 else "orders"
        asked = get(context, (0, 0), version=version, topic=topic)
        assert records_of(asked) == b"".join(batches)
        found = partitions_of(asked)[0]
        assert (found.high_watermark, found.last_stable_offset) == (6, 6)

    asyncio.run(ask())


@run()
async def test_from_the_middle_of_a_batch_the_whole_batch_comes(context: HouseContext) -> None:
    first, second = put(context, 10, 10)
    await context.settle()

    assert records_of(get(context, (0, 7))) == first + second
    assert records_of(get(context, (0, 10))) == second
    assert records_of(get(context, (0, 19))) == second


@run()
async def test_only_what_is_safe_is_served(context: HouseContext) -> None:
    (first,) = put(context, 2)
    await context.settle()
    put(context, 3)

    assert records_of(get(context, (0, 0))) == first
    assert records_of(get(context, (0, 2))) == b""
    await context.settle()


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (0, 1), (3, 0), (4, 0), (5, 1), (2**60, 1)])
def test_below_the_start_and_beyond_the_end_is_out_of_range_at_the_end_is_nothing(offset: int, code: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        put(context, 2, 2)
        await context.settle()
        context.house.replicas.leader("orders", 0).delete_records(2)
        found = partitions_of(get(context, (0, offset), max_wait_ms=10_000, min_bytes=0))[0]
        assert found.error_code == code

    asyncio.run(ask())


@run()
async def test_what_there_is_not_is_told_partition_by_partition(context: HouseContext) -> None:
    (batch,) = put(context, 1)
    await context.settle()

    asked = get(context, (9, 0), (0, 0), max_wait_ms=10_000, min_bytes=1_000_000)

    assert code_of(asked, 9) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert records_of(asked, 0) == batch
    assert code_of(get(context, (0, 0), topic=b"no such topic id", version=13)) == Code.UNKNOWN_TOPIC_ID


@run()
async def test_a_client_that_believes_in_another_leader_is_told(context: HouseContext) -> None:
    put(context, 1)
    await context.settle()

    assert code_of(get(context, (0, 0), leader_epoch=7)) == Code.UNKNOWN_LEADER_EPOCH


# --- limits


@run()
async def test_a_partition_gives_whole_batches_up_to_its_limit(context: HouseContext) -> None:
    first, second, _ = put(context, 2, 2, 2)
    await context.settle()

    asked = get(context, (0, 0), partition_max_bytes=len(first) + len(second) + 1)

    assert records_of(asked) == first + second


@pytest.mark.parametrize(("partition_max_bytes", "max_bytes"), [(1, MAX_BYTES), (MAX_BYTES, 1), (0, 0), (-5, -5)])
def test_the_first_batch_comes_even_when_it_is_larger_than_the_limits(partition_max_bytes: int, max_bytes: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        first, _ = put(context, 100, 1)
        await context.settle()
        asked = get(context, (0, 0), partition_max_bytes=partition_max_bytes, max_bytes=max_bytes)
        assert records_of(asked) == first

    asyncio.run(ask())


@run({"orders": 3})
async def test_the_whole_answer_keeps_to_its_limit(context: HouseContext) -> None:
    sizes = [len(put(context, 5, partition=partition)[0]) for partition in range(3)]
    await context.settle()

    asked = get(context, (0, 0), (1, 0), (2, 0), max_bytes=sizes[0] + sizes[1])

    given = [len(partitions_of(asked)[partition].records or b"") for partition in range(3)]
    assert sorted(given) == [0, sizes[0], sizes[1]]
    assert len(partitions_of(asked)) == 3


@run({"orders": 3})
async def test_each_request_begins_with_another_partition_so_that_none_is_starved(context: HouseContext) -> None:
    for partition in range(3):
        put(context, 5, partition=partition)
    await context.settle()
    served: list[int] = []
    request = FetchRequest(
        -1, 0, 1, 1, 0, 0, -1, [FetchPartition("orders", partition, 0, 1000, -1) for partition in range(3)], []
    )
    for correlation_id in range(6):
        answers: list[Any] = []
        header = RequestHeader(1, 11, correlation_id, "", 0)
        body = memoryview(fetch_request(11, request))
        fetch.start(call_of(body, header, Caller("", "", 11, 1), answers.append), context.context)
        asked = Asked(1, 11)
        frame = b"".join(map(bytes, answers[0]))
        asked((frame[:4] + (9).to_bytes(4, "big") + frame[8:],))
        served += [number for number, found in partitions_of(asked).items() if found.records]

    assert sorted(served) == [0, 0, 1, 1, 2, 2]


def test_the_nodes_own_limit_holds_whatever_the_client_asks() -> None:
    async def ask() -> None:
        context = HouseContext(config=NodeConfig.from_settings({"fetch.max.bytes": "1024"}))
        first, second = put(context, 1, 1, value=bytes(800))
        await context.settle()
        asked = get(context, (0, 0), min_bytes=len(first) + len(second), max_wait_ms=10_000)
        assert records_of(asked) == first

    asyncio.run(ask())


# --- waiting


@run()
async def test_a_fetch_at_the_end_waits_until_there_is_something_safe(context: HouseContext) -> None:
    asked = get(context, (0, 0), max_wait_ms=10_000)
    assert asked.raw is WAITING

    (batch,) = put(context, 1)
    assert asked.raw is WAITING
    await context.settle()

    assert records_of(asked) == batch
    assert context.house.waiting.counts() == (0, 0)


@run()
async def test_between_watermark_and_end_it_waits(context: HouseContext) -> None:
    batches = put(context, 2, 2)
    asked = get(context, (0, 1), max_wait_ms=10_000)
    assert asked.raw is WAITING

    await context.settle()

    assert records_of(asked) == b"".join(batches)


@run()
async def test_it_waits_until_min_bytes_are_there(context: HouseContext) -> None:
    (first,) = put(context, 1)
    await context.settle()
    asked = get(context, (0, 0), (1, 0), max_wait_ms=10_000, min_bytes=3 * len(first))
    put(context, 1, partition=1)
    await context.settle()
    assert asked.raw is WAITING

    put(context, 1)
    await context.settle()

    assert len(records_of(asked, 0)) + len(records_of(asked, 1)) == 3 * len(first)


@run()
async def test_it_does_not_wait_for_more_than_the_limits_let_through(context: HouseContext) -> None:
    first, second, _ = put(context, 1, 1, 1)
    await context.settle()
    size = len(first) + len(second) + 5

    asked = get(context, (0, 0), max_wait_ms=10_000, min_bytes=size, partition_max_bytes=size)

    assert records_of(asked) == first + second


@run()
async def test_when_time_is_up_it_answers_with_what_there_is(context: HouseContext) -> None:
    (batch,) = put(context, 1)
    await context.settle()
    little, nothing = get(context, (0, 0), max_wait_ms=500, min_bytes=10_000), get(context, (1, 0), max_wait_ms=600)

    context.house.loop.advance(499)
    assert (little.raw, nothing.raw) == (WAITING, WAITING)
    context.house.loop.advance(101)

    assert records_of(little) == batch
    assert records_of(nothing, 1) == b""
    assert context.house.waiting.counts() == (0, 0)


@run()
async def test_an_answer_that_came_in_time_is_not_given_again_when_time_is_up(context: HouseContext) -> None:
    asked = get(context, (0, 0), max_wait_ms=500)
    put(context, 1)
    await context.settle()

    context.house.loop.advance(1000)

    assert len(asked.answers) == 1


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (10_000, 0)])
def test_who_does_not_want_to_wait_is_answered_at_once(max_wait_ms: int, min_bytes: int) -> None:
    async def ask() -> None:
        assert records_of(get(HouseContext(), (0, 0), max_wait_ms=max_wait_ms, min_bytes=min_bytes)) == b""

    asyncio.run(ask())


@run()
async def test_a_topic_deleted_while_a_fetch_waits_is_told_at_once(context: HouseContext) -> None:
    put(context, 1)
    await context.settle()
    asked = get(context, (0, 1), max_wait_ms=10_000)

    context.house.tell(DeleteTopics((TopicToDelete(name="orders"),)))
    context.house.replicas.partitions.metadata_changed()

    assert code_of(asked) == Code.UNKNOWN_TOPIC_OR_PARTITION


@run()
async def test_one_empty_partition_does_not_hold_back_the_others(context: HouseContext) -> None:
    (batch,) = put(context, 1, partition=1)
    await context.settle()

    asked = get(context, (0, 0), (1, 0), max_wait_ms=10_000)

    assert (records_of(asked, 0), records_of(asked, 1)) == (b"", batch)


# --- disks


@run()
async def test_what_is_not_in_memory_is_waited_for_and_served(context: HouseContext) -> None:
    batches = put(context, 1, 2)
    await context.settle()
    context.house.files.is_cached = False

    asked = get(context, (0, 0), (1, 0))
    assert asked.raw is WAITING
    await context.settle()

    assert records_of(asked) == b"".join(batches)


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_read_that_fails_is_an_error_and_takes_the_replica_offline(is_cached: bool) -> None:
    async def ask() -> None:
        context = HouseContext()
        put(context, 1)
        (good,) = put(context, 1, partition=1)
        await context.settle()
        context.house.files.is_cached = is_cached
        context.house.files.failures["read:orders-0/00000000000000000000.log"] = EIO
        asked = get(context, (0, 0), (1, 0))
        await context.settle()
        assert code_of(asked, 0) == Code.KAFKA_STORAGE_ERROR
        assert records_of(asked, 1) == good
        assert context.house.replicas.partitions.offline().keys() == {("orders", 0)}

    asyncio.run(ask())


@pytest.mark.parametrize("is_cached", [True, False])
def test_bytes_that_rotted_are_never_served(is_cached: bool) -> None:
    async def ask() -> None:
        before = HouseContext()
        put(before, 1, 1)
        await before.settle()
        before.house.checkpoints.write(before.house.replicas.held())
        before.house.files.flip("orders-0/00000000000000000000.log", 8 * 70)
        context = HouseContext(files=before.house.files)
        context.house.files.is_cached = is_cached
        for _ in range(2):
            asked = get(context, (0, 0))
            await context.settle()
            assert code_of(asked) == Code.KAFKA_STORAGE_ERROR

    asyncio.run(ask())


# --- clients that leave, and faults


@run()
async def test_a_fetch_that_nobody_waits_for_any_more_waits_no_longer(context: HouseContext) -> None:
    asked = get(context, (0, 0), max_wait_ms=2**31 - 1)
    assert asked.leave is not None

    asked.leave()
    put(context, 1)
    await context.settle()

    assert asked.raw is WAITING
    assert context.house.waiting.counts() == (0, 0)


@run()
async def test_a_fault_while_it_waits_hangs_up_and_leaves_nothing_behind(context: HouseContext) -> None:
    asked = get(context, (0, 0), max_wait_ms=10_000)
    replica = context.house.replicas.leader("orders", 0)
    object.__setattr__(replica, "log", None)  # a broken invariant

    context.house.waiting.moved(replica)

    assert asked.raw is None
    assert context.house.waiting.counts() == (0, 0)
