"""A whole node that traces as its settings say, over restarts; and how it tells how things stand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.commands import AlterConfigs, ConfigChange, ConfigOperation, ResourceType
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.core.machines.metadata.records import ConfigRecord, TopicRecord
from chronik.core.replica.replica import ACKS_ALL
from chronik.node.observe.tracing import described, marked, what_is_traced
from chronik.sim.loop import SimLoop
from chronik.trace.events import FetchWaits, PartitionSeen, ProduceAppended, WatermarkMoved
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.copies import pass_time
from tests.unit.node.fakes import NODE_ID, NOW_MS, memory_replica
from tests.unit.node.test_node import Running, made_with_orders

E = TypeVar("E")
ON = {"chronik.trace": "true"}
SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run(test: Callable[[MemoryFiles], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """In simulated time."""

    def wrapped() -> None:
        loop = SimLoop()
        try:
            loop.run_until_complete(test(MemoryFiles()))
        finally:
            loop.close()

    wrapped.__name__ = test.__name__
    return wrapped


async def alter(running: Running, kind: ResourceType, name: str, key: str, value: str | None) -> None:
    change = ConfigChange(kind, name, ((key, DELETE if value is None else SET, value),))
    (outcome,) = await running.node.cluster.metadata.ask_here(AlterConfigs((change,)))
    assert not outcome.code, outcome


def told(running: Running, kind: type[E]) -> list[E]:
    return [event for event in running.node.trace.read().events if isinstance(event, kind)]


async def stop(running: Running) -> None:
    assert running.node.metrics.faults == 0
    await running.node.stop()


# --- what is traced


@run
async def test_nothing_is_traced_unless_somebody_says_so(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    await running.produce(bytes(batch_of()))
    await pass_time(2000)

    assert running.node.trace.added == 0
    assert running.node.image.topic(TRACE_TOPIC) is None
    await stop(running)


@run
async def test_a_node_that_was_told_to_traces_from_its_start(files: MemoryFiles) -> None:
    running = await made_with_orders(files, ON)
    await running.produce(bytes(batch_of(3)))

    assert [(event.topic, event.to_offset) for event in told(running, ProduceAppended)] == [("orders", 3)]
    await stop(running)


@run
async def test_tracing_is_switched_while_it_runs_and_that_survives_a_restart(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    await running.produce(bytes(batch_of()))
    await alter(running, ResourceType.BROKER, "", "chronik.trace", "true")
    await running.produce(bytes(batch_of()))
    assert [event.base_offset for event in told(running, ProduceAppended)] == [1]
    assert [(event.before, event.watermark) for event in told(running, WatermarkMoved)] == [(1, 2)]
    await stop(running)

    again = await Running(files).start()
    await again.produce(bytes(batch_of()))
    assert [event.base_offset for event in told(again, ProduceAppended)] == [2]

    await alter(again, ResourceType.BROKER, "", "chronik.trace", "false")
    assert again.node.trace.steps is None
    await again.produce(bytes(batch_of()))
    assert len(told(again, ProduceAppended)) == 1
    await stop(again)


@run
async def test_one_topic_can_be_traced_alone(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    await running.metadata("bills")
    await alter(running, ResourceType.TOPIC, "bills", "chronik.trace", "true")
    for topic in ("orders", "bills"):
        await running.produce(bytes(batch_of()), topic)

    assert [event.topic for event in told(running, ProduceAppended)] == ["bills"]
    await running.delete("bills")
    assert running.node.trace.steps is None
    await stop(running)


def test_a_topic_of_its_own_mind_is_an_exception_only_where_it_differs() -> None:
    image = MetadataImage("c", NodeConfig.from_settings(ON))
    for name, value in (("a", "true"), ("b", "false")):
        image.apply(TopicRecord(name, name.encode() * 16))
        image.apply(ConfigRecord(ResourceType.TOPIC, name, "chronik.trace", value))

    assert what_is_traced(image) == (True, frozenset({"b"}))
    image.apply(ConfigRecord(ResourceType.BROKER, "", "chronik.trace", "false"))
    assert what_is_traced(image) == (False, frozenset({"a"}))


def test_what_is_traced_in_words() -> None:
    assert described(False, frozenset()) == "nothing"
    assert described(True, frozenset()) == "everything"
    assert described(True, frozenset({"b", "a"})) == "everything but a, b"
    assert described(False, frozenset({"b", "a"})) == "a, b"


# --- how things stand


async def a_second(running: Running) -> None:
    running.clock.advance(1000)
    await pass_time(1001)  # so that whatever is due then has happened


@run
async def test_partitions_are_told_each_second_while_something_happens_and_less_often_else(files: MemoryFiles) -> None:
    running = await made_with_orders(files, ON)
    for _ in range(3):
        await running.produce(bytes(batch_of()))
        await a_second(running)
    assert [event.next_offset for event in told(running, PartitionSeen)] == [1, 2, 3]

    for _ in range(9):
        await a_second(running)

    assert [event.next_offset for event in told(running, PartitionSeen)] == [1, 2, 3, 3, 3, 3]
    assert all(event.is_traced for event in told(running, PartitionSeen))
    await stop(running)


def test_a_partition_is_told_every_time_unless_it_is_as_it_should_be() -> None:
    replica = memory_replica(in_sync=(NODE_ID, NODE_ID + 1))
    replica.follower_fetched(NODE_ID + 1, 0, 0)
    assert marked(replica) is not None

    replica.append(batch_of(), ACKS_ALL, NOW_MS)
    assert marked(replica) is None  # not safe yet
    replica.own_safe(1)
    replica.follower_fetched(NODE_ID + 1, 1, 0)
    assert marked(replica) is not None
    replica.lead(0, 1, (NODE_ID, NODE_ID + 1), (NODE_ID,), 0)
    assert marked(replica) is None  # somebody is out of sync


@run
async def test_fetches_that_wait_for_longer_than_a_second_are_told(files: MemoryFiles) -> None:
    running = await made_with_orders(files, ON)
    assert running.node.trace.steps is not None
    running.node.trace.steps._empty_fetch_us[1] = running.clock.now_us()  # this second's fetch was told already
    await running.begin_fetch(max_wait_ms=30_000)
    running.clock.advance(1500)
    await pass_time(1500)

    assert [event.waited_us for event in told(running, FetchWaits)][-1:] == [1_500_000]
    await stop(running)


# --- where it goes


@run
async def test_it_is_stored_unless_that_is_switched_off(files: MemoryFiles) -> None:
    running = await made_with_orders(files, ON)
    await running.produce(bytes(batch_of()))
    await pass_time(1000)
    topic = running.node.image.topic(TRACE_TOPIC)
    assert topic is not None
    stored = running.node.replicas.leader(TRACE_TOPIC, 0).log.end_offset
    assert stored > 0

    await alter(running, ResourceType.BROKER, "", "chronik.trace.store", "false")
    at_the_end = running.node.replicas.leader(TRACE_TOPIC, 0).log.end_offset
    await running.produce(bytes(batch_of()))
    await pass_time(1000)

    assert running.node.replicas.leader(TRACE_TOPIC, 0).log.end_offset == at_the_end
    assert len(told(running, ProduceAppended)) == 2
    await stop(running)


@run
async def test_what_was_told_before_an_orderly_stop_is_in_the_topic(files: MemoryFiles) -> None:
    running = await made_with_orders(files, ON)
    await pass_time(1000)
    before = running.node.replicas.leader(TRACE_TOPIC, 0).log.end_offset
    await running.produce(bytes(batch_of()))
    await stop(running)

    again = await Running(files).start()
    assert again.node.replicas.leader(TRACE_TOPIC, 0).log.end_offset > before
    await stop(again)
