"""Where one record is in a node's copy: in its batch, deleted, compacted away, beyond the end, or not here at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from chronik.core.records.payload import KeyValue, build
from chronik.core.records.steps import Work
from chronik.core.replica.replica import Replica
from chronik.http import record_views
from chronik.http.record_transactions import transaction_at
from chronik.node.node import Node
from chronik.trace.inspections import (
    FindView,
    FoundRecord,
    RecordPlace,
    RecordView,
    TransactionFate,
    TransactionView,
)
from tests.unit.core.log.logs import end_transaction, put_in_transaction
from tests.unit.node.fakes import NODE_ID, NOW_MS, House

ACKS_ALL = -1


def in_house(test: Callable[[House], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        async def run() -> None:
            await test(House())

        asyncio.run(run())

    wrapped.__name__ = test.__name__
    return wrapped


def node_of(house: House) -> Node:
    fake = SimpleNamespace(
        config=SimpleNamespace(node_id=NODE_ID),
        trace=SimpleNamespace(clock=house.clock),
        image=house.image,
        replicas=house.replicas,
    )
    return cast(Node, fake)


def batch_of(*values: bytes, **fields: int) -> bytearray:
    return build([KeyValue(b"key", value) for value in values], NOW_MS, **fields)


def append(house: House, replica: Replica, *values: bytes, **fields: int) -> None:
    house.replicas.append(replica, batch_of(*values, **fields), ACKS_ALL)


async def look(house: House, offset: int, topic: str = "orders", partition: int = 0) -> RecordView:
    return await record_views.record(node_of(house), topic, partition, offset)


async def find(house: House, producer_id: int, sequence: int, from_offset: int = 0) -> FindView:
    return await record_views.find(node_of(house), "orders", 0, producer_id, sequence, from_offset)


@in_house
async def test_a_record_is_told_with_its_batch_and_where_that_stands(house: House) -> None:
    house.create("orders")
    replica = house.replicas.leader("orders", 0)
    append(house, replica, b"a")
    append(house, replica, b"b", b"c", producer_id=7, producer_epoch=1, base_sequence=40)
    await house.settle()

    seen = await look(house, 2)

    assert seen.place is RecordPlace.HERE
    assert (seen.is_leader, seen.leader, seen.replicas, seen.in_sync) == (True, NODE_ID, (NODE_ID,), (NODE_ID,))
    assert (seen.log_start, seen.watermark, seen.next_offset, seen.durable_end_offset) == (0, 3, 3, 3)
    assert seen.is_synced
    batch = seen.batch
    assert batch is not None
    assert (batch.base_offset, batch.to_offset, batch.record_count, batch.is_thinned) == (1, 3, 2, False)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.codec) == (7, 1, 40, "none")
    assert batch.segment.endswith("00000000000000000000.log")
    assert batch.position == len(batch_of(b"a"))


@in_house
async def test_a_record_that_is_not_synced_yet_is_not_called_synced(house: House) -> None:
    house.create("orders")
    append(house, house.replicas.leader("orders", 0), b"a")

    seen = await look(house, 0)

    assert (seen.place, seen.is_synced, seen.watermark) == (RecordPlace.HERE, False, 0)
    await house.settle()
    assert (await look(house, 0)).is_synced


@in_house
async def test_an_offset_that_no_record_has_yet_is_beyond_the_end(house: House) -> None:
    house.create("orders")
    append(house, house.replicas.leader("orders", 0), b"a")

    assert (await look(house, 1)).place is RecordPlace.BEYOND_END
    assert (await look(house, 0)).place is RecordPlace.HERE
    await house.settle()


@in_house
async def test_what_somebody_had_deleted_is_told_apart_from_what_retention_let_go(house: House) -> None:
    house.create("orders")
    house.create("kept", segment_bytes="1048576", retention_ms="1000")
    for topic in ("orders", "kept"):
        replica = house.replicas.leader(topic, 0)
        append(house, replica, b"a")
        append(house, replica, b"b")
    await house.settle()
    house.replicas.delete_records(house.replicas.leader("orders", 0), 1)
    house.clock.advance(10_000)
    kept = house.replicas.leader("kept", 0)
    kept.log.expire(house.clock.now_ms(), kept.high_watermark)
    kept.log.remove_below(kept.log.start_offset, house.clock.now_ms())

    asked_for, expired = await look(house, 0), await look(house, 0, topic="kept")

    assert (asked_for.place, expired.place) == (RecordPlace.DELETED, RecordPlace.DELETED)
    assert "DeleteRecords" in (asked_for.reason or "")
    assert "retention.ms=1000" in (expired.reason or "")
    assert (await look(house, 1)).place is RecordPlace.HERE


@in_house
async def test_a_record_that_a_later_one_of_its_key_replaced_is_compacted_away(house: House) -> None:
    house.create("orders", cleanup_policy="compact", segment_bytes="200", min_cleanable_dirty_ratio="0")
    replica = house.replicas.leader("orders", 0)
    for number in range(12):
        append(house, replica, b"%d" % number)
    await house.settle()
    for file in replica.log.compact(house.clock.now_ms(), replica.high_watermark):
        if file is not None and not isinstance(file, Work):
            file.sync()

    first, last = await look(house, 0), await look(house, 11)

    assert (first.place, first.batch) == (RecordPlace.COMPACTED, None)
    assert last.place is RecordPlace.HERE


@in_house
async def test_a_batch_that_compaction_made_thinner_says_so(house: House) -> None:
    house.create("orders", cleanup_policy="compact", segment_bytes="200", min_cleanable_dirty_ratio="0")
    replica = house.replicas.leader("orders", 0)
    pairs = [KeyValue(b"kept", b"1"), KeyValue(b"key", b"2")]
    house.replicas.append(replica, build(pairs, NOW_MS), ACKS_ALL)
    for number in range(12):
        append(house, replica, b"%d" % number)
    await house.settle()
    for file in replica.log.compact(house.clock.now_ms(), replica.high_watermark):
        if file is not None and not isinstance(file, Work):
            file.sync()

    seen = await look(house, 0)

    assert seen.place is RecordPlace.HERE
    assert seen.batch is not None
    assert (seen.batch.record_count, seen.batch.is_thinned) == (1, True)


@in_house
async def test_a_partition_that_is_not_there_is_said_to_be_none(house: House) -> None:
    house.create("orders")

    assert (await look(house, 0, topic="others")).place is RecordPlace.NO_SUCH_PARTITION
    assert (await look(house, 0, partition=1)).place is RecordPlace.NO_SUCH_PARTITION


@in_house
async def test_a_copy_that_is_offline_says_why(house: House) -> None:
    house.create("orders")
    replica = house.replicas.leader("orders", 0)
    append(house, replica, b"a")
    await house.settle()
    house.replicas.partitions.take_offline(replica, "the disk is broken")

    seen = await look(house, 0)

    assert (seen.place, seen.reason) == (RecordPlace.UNREADABLE, "the disk is broken")


@in_house
async def test_a_sequence_number_is_found_in_the_middle_of_its_batch(house: House) -> None:
    house.create("orders")
    replica = house.replicas.leader("orders", 0)
    append(house, replica, b"a")
    append(house, replica, b"b", b"c", b"d", producer_id=7, producer_epoch=0, base_sequence=0)
    append(house, replica, b"e", producer_id=7, producer_epoch=1, base_sequence=0)
    await house.settle()

    second, first, other = await find(house, 7, 1), await find(house, 7, 0), await find(house, 8, 0)

    assert (second.found, second.go_on_from) == ((FoundRecord(2, 0),), -1)
    assert first.found == (FoundRecord(1, 0), FoundRecord(4, 1))  # a new epoch counts from 0 again
    assert other.found == ()
    assert (await find(house, 7, 0, from_offset=4)).found == (FoundRecord(4, 1),)


@in_house
async def test_a_long_log_is_looked_through_in_parts(house: House) -> None:
    house.create("orders")
    replica = house.replicas.leader("orders", 0)
    for number in range(5):
        append(house, replica, b"a", producer_id=7, producer_epoch=0, base_sequence=number)
    await house.settle()
    node, two_batches = node_of(house), 2 * len(batch_of(b"a"))

    first = await record_views.find(node, "orders", 0, 7, 4, look_bytes=two_batches)
    second = await record_views.find(node, "orders", 0, 7, 4, first.go_on_from, look_bytes=two_batches)
    third = await record_views.find(node, "orders", 0, 7, 4, second.go_on_from, look_bytes=two_batches)

    assert (first.found, first.go_on_from) == ((), 2)
    assert (second.found, second.go_on_from) == ((), 4)
    assert (third.found, third.go_on_from) == ((FoundRecord(4, 0),), -1)


# --- transactions


async def in_transactions(house: House) -> Replica:
    """Producer 7 commits, 8 aborts, 9 stays open: offsets 0 to 2, 3 (abort of 8), 4 (commit of 7), 5 (of 7 again)."""
    house.create("orders")
    replica = house.replicas.leader("orders", 0)
    for producer_id in (7, 8, 9):
        put_in_transaction(replica.log, producer_id)
    end_transaction(replica.log, 8, is_commit=False, coordinator_epoch=3)
    end_transaction(replica.log, 7)
    put_in_transaction(replica.log, 7, sequence=1)
    end_transaction(replica.log, 7)
    await house.settle()
    return replica


@in_house
async def test_the_fate_of_a_records_transaction_is_in_the_log(house: House) -> None:
    await in_transactions(house)

    told = [(await look(house, offset)).transaction for offset in range(7)]

    assert told[0] == TransactionView(TransactionFate.COMMITTED, 7, 0, marker_offset=4)
    assert told[1] == TransactionView(TransactionFate.ABORTED, 8, 0, first_offset=1, marker_offset=3)
    assert told[2] == TransactionView(TransactionFate.OPEN, 9, 0, first_offset=2)
    assert told[3] == TransactionView(TransactionFate.ABORTED, 8, 0, -1, 3, 3, True)
    assert told[4] is not None
    assert (told[4].fate, told[4].is_marker) == (TransactionFate.COMMITTED, True)
    assert told[5] == TransactionView(TransactionFate.COMMITTED, 7, 0, marker_offset=6)


@in_house
async def test_a_committed_record_stays_so_when_its_producer_begins_again(house: House) -> None:
    replica = await in_transactions(house)
    put_in_transaction(replica.log, 7, sequence=2)
    await house.settle()

    told = [(await look(house, offset)).transaction for offset in (0, 7)]
    assert [one.fate for one in told if one is not None] == [TransactionFate.COMMITTED, TransactionFate.OPEN]


@in_house
async def test_a_record_outside_of_transactions_is_in_none(house: House) -> None:
    house.create("orders")
    replica = house.replicas.leader("orders", 0)
    append(house, replica, b"a", producer_id=7, producer_epoch=1, base_sequence=0)
    await house.settle()

    assert (await look(house, 0)).transaction is None


@in_house
async def test_a_marker_that_is_far_away_is_not_looked_for_without_end(house: House) -> None:
    replica = await in_transactions(house)
    batch = (await look(house, 0)).batch
    assert batch is not None

    told = await transaction_at(node_of(house), replica, batch, look_bytes=0)

    assert told is not None
    assert (told.fate, told.marker_offset) == (TransactionFate.COMMITTED, -1)
    assert told.reason == "its marker is beyond offset 0: no further was looked"
