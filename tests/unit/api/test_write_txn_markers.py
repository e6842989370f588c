"""WriteTxnMarkers: what a coordinator has decided is written where the data is, and answered when it is replicated."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

from chronik.api import write_txn_markers
from chronik.api.context import Caller
from chronik.core.errors import Code, Refused
from chronik.core.records.control import Marker
from chronik.trace.events import TransactionMarked
from tests.unit.api.house_context import HouseContext, run
from tests.unit.core.log.logs import put_in_transaction

NODE = Caller("node-2", "127.0.0.1", 2, 1, is_node=True)


def request(
    *,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    topics: tuple[tuple[str, tuple[int, ...]], ...] = (("orders", (0,)),),
) -> Any:
    marker: Any = WritableTxnMarker
    named: Any = WritableTxnMarkerTopic
    return WriteTxnMarkersRequest(
        markers=(
            marker(
                producer_id=7,
                producer_epoch=epoch,
                transaction_result=is_commit,
                topics=tuple(named(name=name, partition_indexes=partitions) for name, partitions in topics),
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
            ),
        )
    )


def codes(response: Any) -> list[Code]:
    return [part.error_code for topic in response.markers[0].topics for part in topic.partitions]


async def answered(context: HouseContext, asked: Any, caller: Caller = NODE) -> list[Code]:
    answer = asyncio.ensure_future(write_txn_markers.handle(asked, caller, context.context))
    await context.settle()
    return codes(await answer)


@run()
async def test_a_marker_ends_the_transaction_and_is_answered_when_it_is_replicated(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    put_in_transaction(replica.log, 7)
    await context.settle()

    answer = asyncio.ensure_future(write_txn_markers.handle(request(is_commit=False), NODE, context.context))
    await context.settle()

    assert codes(await answer) == [Code.NONE]
    assert replica.last_stable_offset == replica.high_watermark == 2
    assert [entry.producer_id for entry in replica.log.aborted_between(0, 2)] == [7]


@run()
async def test_a_marker_that_only_the_leader_has_is_not_answered(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    replica.lead(replica.leader_epoch + 1, replica.partition_epoch + 1, (1, 2), (1, 2), 0)

    answer = asyncio.ensure_future(write_txn_markers.handle(request(), NODE, context.context))
    await asyncio.sleep(0)
    await context.settle()
    await asyncio.sleep(0)

    assert (replica.log.end_offset, answer.done()) == (1, False)
    answer.cancel()


@run()
async def test_each_partition_has_its_own_error(context: HouseContext) -> None:
    wanted = (("orders", (0, 99)), ("nowhere", (0,)), ("__transaction_state", (0,)))

    assert await answered(context, request(topics=wanted)) == [
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.INVALID_TOPIC_EXCEPTION,
    ]


@run()
async def test_on_a_partition_of_offsets_the_group_coordinator_writes_it(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    written: list[Any] = []

    class Groups:
        def append_marker(self, partition: int, *marker: Any) -> Any:
            if partition != 4:
                raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
            written.append(marker)
            return replica, context.house.replicas.append_marker(replica, *marker)

    context.context = dataclasses.replace(context.context, groups=cast(Any, Groups()))
    wanted = request(epoch=3, coordinator_epoch=5, transaction_version=2, topics=(("__consumer_offsets", (4, 5)),))

    assert await answered(context, wanted) == [Code.NONE, Code.NOT_LEADER_OR_FOLLOWER]

    assert written == [(Marker(True, 5), 7, 3, 2)]
    assert replica.log.end_offset == 1


@run()
async def test_an_earlier_epoch_of_producer_or_coordinator_writes_nothing(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    context.house.replicas.append_marker(replica, Marker(True, 5), 7, 3, 0)
    before = replica.log.end_offset

    assert await answered(context, request(epoch=2, coordinator_epoch=5)) == [Code.INVALID_PRODUCER_EPOCH]
    assert await answered(context, request(epoch=3, coordinator_epoch=4)) == [Code.TRANSACTION_COORDINATOR_FENCED]

    assert replica.log.end_offset == before


@run()
async def test_a_marker_that_comes_again_is_no_error(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    put_in_transaction(replica.log, 7)
    again = request(epoch=1, transaction_version=2)

    assert [await answered(context, again) for _ in range(2)] == [[Code.NONE], [Code.NONE]]

    assert replica.log.end_offset == 2


@run()
async def test_an_administrator_ends_a_transaction_that_hangs(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    put_in_transaction(replica.log, 7)

    assert await answered(context, request(), Caller("an-admin", "127.0.0.1", 1, 1)) == [Code.NONE]

    assert (replica.log.end_offset, replica.last_stable_offset) == (2, 2)


def test_a_refusal_has_the_shape_of_an_answer() -> None:
    wanted = request(topics=(("orders", (0, 1)), ("others", (2,))))
    response = write_txn_markers.refuse(wanted, Code.CLUSTER_AUTHORIZATION_FAILED, None)
    assert codes(response) == [Code.CLUSTER_AUTHORIZATION_FAILED] * 3


@run()
async def test_the_trace_has_where_and_when_a_marker_was_written(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    put_in_transaction(replica.log, 7)
    context.house.trace.switch(is_all=True, exceptions=frozenset())

    for _ in range(2):  # the second is known for what it is, and not written
        await answered(context, request(epoch=1, is_commit=False, coordinator_epoch=3, transaction_version=2))

    (told,) = (event for event in context.house.trace.read().events if isinstance(event, TransactionMarked))
    assert (told.topic, told.partition, told.offset) == ("orders", 0, 1)
    assert (told.producer_id, told.producer_epoch, told.is_commit, told.coordinator_epoch) == (7, 1, False, 3)
