"""From a decision to its markers: not before it is durable, and until every partition has its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic, DeleteTopics, TopicToDelete
from chronik.core.machines.metadata.names import TRANSACTIONS_TOPIC
from chronik.core.machines.metadata.records import PartitionChangeRecord
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
)
from chronik.core.machines.transactions.transaction import TransactionStatus
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.coordinators.runtime import partition_of
from chronik.node.coordinators.transaction_coordinator import TransactionCoordinator
from chronik.node.coordinators.transaction_markers import RETRY_MS, MarkerSender
from chronik.node.net.peers import Unreachable
from chronik.node.runtime.steady_time import SteadyTime
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.fakes import NODE_ID, FakeChance, House

S = TransactionStatus
ID = "tx"
ORDERS_0, ORDERS_1, BILLS_0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)
OTHER_NODE = 2


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class FakeLeader:
    """A node that is asked to write markers: what it was sent, and what it says."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.codes: dict[TopicPartition, Code] = {}
        self.problem: Exception | None = None
        self.gate: asyncio.Event | None = None  # an answer that takes its time

    async def write(self, request: Any) -> WriteTxnMarkersResponse:
        self.asked.append(request)
        if self.gate is not None:
            await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(
                                    partition_index=number,
                                    error_code=self.codes.get(TopicPartition(topic.name, number), Code.NONE),
                                )
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    def partitions(self) -> list[TopicPartition]:
        """Of the last request."""
        return [
            TopicPartition(topic.name, number)
            for marker in self.asked[-1].markers
            for topic in marker.topics
            for number in topic.partition_indexes
        ]


class FakePeers:
    """Links to the other node."""

    def __init__(self, leader: FakeLeader) -> None:
        self.leader = leader

    def link(self, node_id: int, purpose: str) -> FakePeers:
        assert (node_id, purpose) == (OTHER_NODE, "markers")
        return self

    def ask(self, api_key: int, request: Any, *, timeout_ms: int) -> asyncio.Future[Any]:
        assert (api_key, timeout_ms > 0) == (27, True)
        return asyncio.ensure_future(self.leader.write(request))


class Place:
    """A coordinator in a house, over the same files or new ones."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        known = () if files is None else (CreateInternalTopic(TRANSACTIONS_TOPIC, bytes(15) + b"\x07"),)
        self.house = House(files, {"orders": 2, "bills": 1}, commands=known)
        self.here, self.there = FakeLeader(), FakeLeader()
        self.markers = MarkerSender(
            self.house.image,
            cast(Any, FakePeers(self.there)),
            self.house.waiting,
            self.house.metrics,
            NODE_ID,
            self.here.write,
        )
        self.coordinator = TransactionCoordinator(
            self.house.image,
            cast(Any, self.ask_metadata),
            self.house.replicas,
            self.house.waiting,
            SteadyTime(self.house.clock),
            FakeChance(),
            TransactionsConfig(),
            self.markers,
            lambda: 2,
        )
        for hears in (self.house.subscribers.went_offline, self.house.subscribers.removed):
            hears.append(self.coordinator.runtime.leadership_lost)
        for name in self.house.replicas.partitions.on_disk():
            self.house.replicas.partitions.ensure_open(name)
        self.coordinator.runtime.start_all_on_disk()

    async def ask_metadata(self, command: Any) -> Any:
        assert isinstance(command, CreateInternalTopic)
        return self.house.tell(replace(command, topic_id=bytes(15) + b"\x07"))

    async def ask(self, command: Any) -> Any:
        answer = asyncio.ensure_future(self.coordinator.ask(ID, command))
        await self.settle()
        return await answer

    async def settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)
            await self.house.settle()
            self.house.loop.advance(0)

    async def wait(self, ms: int) -> None:
        self.house.loop.advance(ms)
        await self.settle()

    async def begin(self, *partitions: TopicPartition) -> ProducerIdentity:
        producer: ProducerIdentity = await self.ask(InitProducer(ID, 60_000, new_producer_id=500))
        await self.ask(AddPartitions(ID, producer, partitions))
        return producer

    def log(self) -> Replica:
        return self.house.replicas.leader(TRANSACTIONS_TOPIC, partition_of(ID, 50))

    async def status(self) -> TransactionStatus:
        transaction = await self.ask(DescribeTransaction(ID))
        status: TransactionStatus = transaction.status
        return status

    def led_by_other(self, name: TopicPartition) -> None:
        topic = self.house.image.topic(name.topic)
        assert topic is not None
        self.house.image.apply(PartitionChangeRecord(name.partition, topic.id, leader=OTHER_NODE))


def run(test: Callable[[Place], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_place() -> None:
        await test(Place())

    def wrapped() -> None:
        asyncio.run(with_place())

    wrapped.__name__ = test.__name__
    wrapped.__doc__ = test.__doc__
    return wrapped


@run
async def test_markers_go_to_each_leader_and_the_transaction_is_complete(place: Place) -> None:
    place.led_by_other(BILLS_0)
    producer = await place.begin(ORDERS_0, ORDERS_1, BILLS_0)
    assert not place.here.asked
    assert await place.ask(EndTransaction(ID, producer, is_commit=True)) == producer
    await place.settle()
    assert place.here.partitions() == [ORDERS_0, ORDERS_1]
    assert place.there.partitions() == [BILLS_0]
    (marker,) = place.here.asked[0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (500, 0, True)
    assert marker.coordinator_epoch == place.log().leader_epoch
    assert await place.status() is S.COMPLETE_COMMIT
    assert not len(place.markers)


@run
async def test_no_marker_leaves_before_the_decision_is_durable(place: Place) -> None:
    """F53: what is not durable may be lost with this node, and the next coordinator decides otherwise."""
    producer = await place.begin(ORDERS_0)
    asked = asyncio.ensure_future(place.coordinator.ask(ID, EndTransaction(ID, producer, is_commit=True)))
    await asyncio.sleep(0)  # appended and applied; the sync is still to come
    machine = next(iter(place.coordinator.machines()))
    assert machine.transactions[ID].status is S.PREPARE_COMMIT
    assert not len(place.markers)  # not even queued
    assert not place.here.asked
    assert not asked.done()
    await place.settle()
    assert len(place.here.asked) == 1
    assert await asked == producer


@run
async def test_a_marker_is_sent_again_until_it_is_written_and_to_the_leader_of_then(place: Place) -> None:
    producer = await place.begin(ORDERS_0, ORDERS_1)
    place.here.codes[ORDERS_1] = Code.NOT_LEADER_OR_FOLLOWER
    await place.ask(EndTransaction(ID, producer, is_commit=False))
    await place.settle()
    assert place.here.partitions() == [ORDERS_0, ORDERS_1]
    assert await place.status() is S.PREPARE_ABORT
    place.led_by_other(ORDERS_1)
    place.there.problem = Unreachable("down")
    await place.wait(RETRY_MS)
    assert place.there.partitions() == [ORDERS_1]
    place.there.problem = None
    await place.wait(RETRY_MS)
    assert len(place.there.asked) == 2
    assert len(place.here.asked) == 1  # what was written is not written again
    assert await place.status() is S.COMPLETE_ABORT


@run
async def test_it_is_known_where_a_marker_is_missing_and_why(place: Place) -> None:
    def missing() -> list[dict[TopicPartition, str]]:
        return [partitions for _, partitions in place.coordinator.unfinished()]

    producer = await place.begin(ORDERS_0, ORDERS_1)
    assert missing() == [{}], "it is ongoing"
    place.here.codes = {ORDERS_1: Code.NOT_LEADER_OR_FOLLOWER}
    await place.ask(EndTransaction(ID, producer, is_commit=True))
    await place.settle()
    assert missing() == [{ORDERS_1: "its leader answered NOT_LEADER_OR_FOLLOWER"}]

    place.led_by_other(ORDERS_1)
    place.there.problem = Unreachable("down")
    await place.wait(RETRY_MS)
    assert missing() == [{ORDERS_1: "node 2 could not be asked: down"}]

    topic = place.house.image.topic("orders")
    assert topic is not None
    place.house.image.apply(PartitionChangeRecord(1, topic.id, leader=-1))
    await place.wait(RETRY_MS)
    assert missing() == [{ORDERS_1: "no node leads it"}]

    place.here.codes = {}
    place.house.image.apply(PartitionChangeRecord(1, topic.id, leader=NODE_ID))
    await place.wait(RETRY_MS)
    assert missing() == []


@run
async def test_one_request_at_a_time_and_all_that_waits_goes_with_the_next(place: Place) -> None:
    place.here.gate = asyncio.Event()
    for number in range(5):
        id = f"tx-{number}"
        commands: list[Any] = [InitProducer(id, 60_000, new_producer_id=600 + number)]
        producer = ProducerIdentity(600 + number, 0)
        commands += [AddPartitions(id, producer, (ORDERS_0,)), EndTransaction(id, producer, is_commit=True)]
        for command in commands:
            answer = asyncio.ensure_future(place.coordinator.ask(id, command))
            await place.settle()
            await answer
    assert [len(request.markers) for request in place.here.asked] == [1]
    place.here.gate.set()
    await place.settle()
    assert [len(request.markers) for request in place.here.asked] == [1, 4]
    assert not len(place.markers)


@run
async def test_a_partition_without_a_leader_is_waited_for_and_a_deleted_one_is_not(place: Place) -> None:
    producer = await place.begin(ORDERS_0, BILLS_0)
    topic = place.house.image.topic("orders")
    assert topic is not None
    place.house.image.apply(PartitionChangeRecord(0, topic.id, leader=-1))
    place.house.tell(DeleteTopics((TopicToDelete("bills"),)))
    await place.ask(EndTransaction(ID, producer, is_commit=True))
    await place.wait(RETRY_MS)
    assert not place.here.asked
    place.house.image.apply(PartitionChangeRecord(0, topic.id, leader=NODE_ID))
    await place.wait(RETRY_MS)
    assert place.here.partitions() == [ORDERS_0]
    assert await place.status() is S.COMPLETE_COMMIT


@pytest.mark.parametrize("code", [Code.TRANSACTION_COORDINATOR_FENCED, Code.INVALID_PRODUCER_EPOCH])
def test_a_coordinator_that_is_fenced_gives_up(code: Code) -> None:
    async def scenario() -> None:
        place = Place()
        producer = await place.begin(ORDERS_0, ORDERS_1)
        place.here.codes[ORDERS_0] = code
        await place.ask(EndTransaction(ID, producer, is_commit=True))
        await place.wait(RETRY_MS)
        assert len(place.here.asked) == 1
        assert not len(place.markers)
        assert await place.status() is S.PREPARE_COMMIT

    asyncio.run(scenario())


@run
async def test_a_node_that_takes_over_sends_what_was_decided(place: Place) -> None:
    producer = await place.begin(ORDERS_0)
    place.here.problem = Unreachable("down")
    await place.ask(EndTransaction(ID, producer, is_commit=True))
    await place.settle()
    assert await place.status() is S.PREPARE_COMMIT
    place.coordinator.close()

    again = Place(place.house.files)
    await again.settle()
    assert again.here.partitions() == [ORDERS_0]
    assert again.here.asked[0].markers[0].transaction_result is True
    assert await again.status() is S.COMPLETE_COMMIT


@run
async def test_with_the_leadership_go_the_markers(place: Place) -> None:
    producer = await place.begin(ORDERS_0)
    place.here.codes[ORDERS_0] = Code.NOT_ENOUGH_REPLICAS
    await place.ask(EndTransaction(ID, producer, is_commit=True))
    await place.settle()
    assert len(place.markers) == 1
    place.coordinator.runtime.leadership_lost(place.log())
    assert not len(place.markers)
    await place.wait(RETRY_MS)
    assert len(place.here.asked) == 1


@run
async def test_an_end_without_partitions_needs_no_markers(place: Place) -> None:
    producer: ProducerIdentity = await place.ask(InitProducer(ID, 60_000, new_producer_id=500))
    ended = await place.ask(EndTransaction(ID, producer, is_commit=False, client_version=2))
    assert ended == (500, 1)
    await place.settle()
    assert not place.here.asked
    assert await place.status() is S.COMPLETE_ABORT


@run
async def test_a_refusal_reaches_the_one_that_asked(place: Place) -> None:
    with pytest.raises(Refused) as refused:
        await place.ask(EndTransaction(ID, ProducerIdentity(1, 0), is_commit=True))
    assert refused.value.code is Code.INVALID_PRODUCER_ID_MAPPING


@run
async def test_a_fault_at_the_leader_is_counted_and_tried_again(place: Place) -> None:
    producer = await place.begin(ORDERS_0)
    place.here.problem = ValueError("a bug")
    await place.ask(EndTransaction(ID, producer, is_commit=True))
    await place.settle()
    assert place.house.metrics.faults == 1
    place.here.problem = None
    await place.wait(RETRY_MS)
    assert await place.status() is S.COMPLETE_COMMIT
