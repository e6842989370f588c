"""What requests tell the trace: each step of a batch and of a fetch, and every refusal."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import TypeVar

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from chronik.api import fetch, list_offsets, metadata, offset_commit, produce
from chronik.api.context import Caller, RequestContext
from chronik.api.refusals import trace_refused_request
from chronik.core.errors import Code
from chronik.trace.events import (
    Committed,
    FetchAnswered,
    FetchDropped,
    FetchWaits,
    MetadataTold,
    ProduceAnswered,
    ProduceAppended,
    RefusedEvent,
    TraceBegan,
    WatermarkMoved,
)
from chronik.trace.recorder import UNANSWERED_US, Chunk, Recorder
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.unions.metadata import AnyMetadataTopic as MetadataTopic
from chronik.wire.unions.offset_commit import AnyOffsetCommitPartition as CommitPartition
from chronik.wire.unions.offset_commit import AnyOffsetCommitTopic as CommitTopic
from tests.unit.api.fake_context import FakeClock, ask, fake_context
from tests.unit.api.grouped_context import grouped_context
from tests.unit.api.house_context import WAITING, Asked, HouseContext, run
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NODE_ID
from tests.unit.wire.hot_requests import fetch_request, produce_request

E = TypeVar("E")
VERSION = 12
ALL = frozenset[str]()


def send(
    context: HouseContext, batch: bytes | None = None, *, acks: int = 1, topic: str = "orders", to: int = 0
) -> Asked:
    records = bytes(batch_of()) if batch is None else batch
    return context.ask(produce, VERSION, produce_request(VERSION, None, acks, 1000, [(topic, [(to, records)])]))


def get(context: HouseContext, offset: int, *, wait_ms: int = 0, partitions: tuple[int, ...] = (0,)) -> Asked:
    wanted = [FetchPartition("orders", partition, offset, 1_000_000, -1) for partition in partitions]
    request = FetchRequest(-1, wait_ms, 1, 50_000_000, 1, 0, -1, wanted, [])
    return context.ask(fetch, VERSION, fetch_request(VERSION, request))


def events(context: HouseContext, kind: type[E]) -> list[E]:
    return [event for event in context.house.trace.read().events if isinstance(event, kind)]


def trace_all(context: HouseContext) -> None:
    context.house.trace.switch(is_all=True, exceptions=ALL)


# --- producing


@run()
async def test_a_batch_tells_who_sent_it_and_where_it_stands(context: HouseContext) -> None:
    trace_all(context)
    batch = bytes(batch_of(3, producer_id=7, producer_epoch=2, sequence=5))

    send(context, batch, acks=-1)
    await context.settle()

    now_us = context.house.clock.now_us()
    assert events(context, ProduceAppended) == [
        ProduceAppended(
            now_us,
            NODE_ID,
            "orders",
            0,
            "test",
            "10.0.0.7",
            1,
            -1,
            7,
            2,
            5,
            0,
            3,
            len(batch),
            False,
            0,
            0,
            "User:ANONYMOUS",
        )
    ]
    assert events(context, ProduceAnswered) == [
        ProduceAnswered(now_us, NODE_ID, "orders", 0, "test", "10.0.0.7", 1, -1, 0, 3, 0, 3, (NODE_ID,), 0)
    ]
    assert events(context, WatermarkMoved) == [WatermarkMoved(now_us, NODE_ID, "orders", 0, 0, 3, 3, True)]


@run()
async def test_the_steps_of_a_batch_are_told_in_their_order(context: HouseContext) -> None:
    trace_all(context)

    send(context, acks=-1)
    await context.settle()

    context.house.clock.advance(1)
    send(context, acks=-1)
    await context.settle()

    told = context.house.trace.read(1).events
    assert [event.base_offset for event in told if isinstance(event, ProduceAppended)] == [0, 1]
    assert [event.at_us for event in told] == sorted(event.at_us for event in told)


@run()
async def test_batches_that_are_soon_answered_are_one_line(context: HouseContext) -> None:
    trace_all(context)
    stored: list[Chunk] = []
    context.house.trace.seal()
    context.house.trace.store_with(stored.append)

    send(context)
    send(context)
    context.house.clock.advance(25)
    await context.settle()
    context.house.trace.seal()

    (chunk,) = stored
    assert [json.loads(line)["kind"] for line in chunk.lines.splitlines()] == ["watermark_moved", "batch_run"]
    assert chunk.events == 5
    for appended, answered in zip(events(context, ProduceAppended), events(context, ProduceAnswered), strict=True):
        assert (answered.at_us - appended.at_us, answered.took_us) == (25_000, 25_000)


@run()
async def test_a_batch_that_waits_is_written_down_before_its_answer_comes(context: HouseContext) -> None:
    trace_all(context)
    context.house.trace.seal()
    send(context)
    context.house.clock.advance(UNANSWERED_US // 1000 - 1)
    context.house.trace.seal()
    assert context.house.trace.added == 1  # that the trace began

    context.house.clock.advance(1)
    context.house.trace.seal()
    assert context.house.trace.added == 2

    await context.settle()
    assert [type(event) for event in context.house.trace.read(1).events] == [
        ProduceAppended,
        WatermarkMoved,
        ProduceAnswered,
    ]


@run()
async def test_who_looks_sees_a_batch_at_once_and_its_answer_later(context: HouseContext) -> None:
    trace_all(context)
    send(context)

    read = context.house.trace.read()
    await context.settle()

    assert [type(event) for event in read.events] == [TraceBegan, ProduceAppended]
    later = [type(event) for event in context.house.trace.read(read.cursor).events]
    assert later == [WatermarkMoved, ProduceAnswered]


@run()
async def test_a_batch_under_way_is_told_when_the_trace_is_switched_off(context: HouseContext) -> None:
    trace_all(context)
    send(context)
    context.house.trace.switch(is_all=False, exceptions=ALL)

    assert len(events(context, ProduceAppended)) == 1


@run()
async def test_how_long_an_answer_took_is_measured(context: HouseContext) -> None:
    trace_all(context)

    send(context)
    context.house.clock.advance(25)
    await context.settle()

    assert [event.took_us for event in events(context, ProduceAnswered)] == [25_000]


@run()
async def test_a_batch_that_is_not_safe_yet_has_no_answer_in_the_trace(context: HouseContext) -> None:
    trace_all(context)

    send(context, acks=-1)

    assert len(events(context, ProduceAppended)) == 1
    assert events(context, ProduceAnswered) == []
    await context.settle()


@run(is_synced=False)
async def test_the_time_of_an_append_is_not_after_the_move_that_it_caused(context: HouseContext) -> None:
    trace_all(context)

    send(context)

    assert [event.watermark for event in events(context, ProduceAppended)] == [0]
    assert [(event.watermark_before, event.watermark) for event in events(context, ProduceAnswered)] == [(0, 1)]
    assert events(context, ProduceAppended)[0].at_us <= events(context, WatermarkMoved)[0].at_us


@run()
async def test_a_retry_is_told_as_a_duplicate_with_the_offsets_of_the_first(context: HouseContext) -> None:
    trace_all(context)
    batch = bytes(batch_of(2, producer_id=7, sequence=0))

    for _ in range(2):
        send(context, batch)
        await context.settle()

    told = [(event.base_offset, event.to_offset, event.is_duplicate) for event in events(context, ProduceAppended)]
    assert told == [(0, 2, False), (0, 2, True)]


@run()
async def test_without_acknowledgement_there_is_an_append_and_no_answer(context: HouseContext) -> None:
    trace_all(context)

    send(context, acks=0)
    await context.settle()

    assert [event.acks for event in events(context, ProduceAppended)] == [0]
    assert events(context, ProduceAnswered) == []


@run()
async def test_a_refused_batch_is_told_with_its_code_and_reason(context: HouseContext) -> None:
    trace_all(context)

    send(context, to=9)
    send(context, acks=5)

    told = [(event.api, event.topic, event.partition, event.error) for event in events(context, RefusedEvent)]
    assert told == [
        ("produce", "orders", 9, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("produce", "orders", 0, "INVALID_REQUIRED_ACKS"),
    ]
    assert [(event.client_id, event.host, event.connection) for event in events(context, RefusedEvent)] == [
        ("test", "10.0.0.7", 1)
    ] * 2
    assert [(event.leader, event.leader_epoch) for event in events(context, RefusedEvent)] == [(-1, -1), (NODE_ID, 0)]


@run()
async def test_a_batch_that_timed_out_is_refused_in_the_trace_and_not_answered(context: HouseContext) -> None:
    trace_all(context)

    send(context, acks=-1)
    context.house.loop.advance(1001)
    await context.settle()  # it is safe now, and nothing waits for that any more

    assert [event.error for event in events(context, RefusedEvent)] == ["REQUEST_TIMED_OUT"]
    assert len(events(context, ProduceAppended)) == 1
    assert events(context, ProduceAnswered) == []


@run()
async def test_a_producer_that_hung_up_is_not_answered(context: HouseContext) -> None:
    trace_all(context)
    asked = send(context)

    assert asked.leave is not None
    asked.leave()
    await context.settle()  # it is safe now

    assert len(events(context, ProduceAppended)) == 1
    assert events(context, ProduceAnswered) == []


@run({"orders": 1, "bills": 1})
async def test_a_topic_that_is_not_traced_tells_nothing(context: HouseContext) -> None:
    context.house.trace.switch(is_all=False, exceptions=frozenset({"bills"}))

    send(context, acks=-1)
    get(context, 0)
    send(context, to=9)
    await context.settle()

    assert len(context.house.trace.read().events) == 1  # where it begins


@run()
async def test_switched_off_it_tells_nothing(context: HouseContext) -> None:
    send(context, acks=-1)
    get(context, 0)
    await context.settle()

    assert context.house.trace.read().events == []


# --- consuming


@run()
async def test_a_fetch_tells_what_it_gave(context: HouseContext) -> None:
    send(context, bytes(batch_of(3)))
    await context.settle()
    trace_all(context)

    get(context, 1)

    (told,) = events(context, FetchAnswered)
    assert (told.topic, told.partition, told.offset, told.to_offset) == ("orders", 0, 1, 3)
    assert (told.watermark, told.last_stable_offset, told.next_offset) == (3, 3, 3)
    assert (told.max_bytes, told.min_bytes, told.max_wait_ms, told.is_committed_only) == (1_000_000, 1, 0, True)
    assert told.size_bytes == len(batch_of(3))
    assert not told.has_waited


@run()
async def test_a_fetch_that_waits_is_told_and_so_is_its_end(context: HouseContext) -> None:
    trace_all(context)
    asked = get(context, 0, wait_ms=500)
    assert asked.raw is WAITING
    context.house.clock.advance(100)

    send(context)
    await context.settle()

    (waits,), (answered,) = events(context, FetchWaits), events(context, FetchAnswered)
    assert (waits.offset, waits.watermark, waits.max_wait_ms, waits.waited_us) == (0, 0, 500, 0)
    assert (answered.to_offset, answered.has_waited, answered.took_us) == (1, True, 100_000)


@run()
async def test_fetches_that_give_nothing_are_told_once_a_second_for_each_connection(context: HouseContext) -> None:
    trace_all(context)
    for _ in range(5):
        get(context, 0)
        context.house.clock.advance(400)

    assert [event.offset for event in events(context, FetchAnswered)] == [0, 0]


@run()
async def test_a_fetch_that_gives_nothing_although_there_is_something_is_always_told(context: HouseContext) -> None:
    for partition in (0, 1):
        send(context, to=partition)
    await context.settle()
    trace_all(context)

    for _ in range(3):
        wanted = [FetchPartition("orders", partition, 0, 1, -1) for partition in (0, 1)]
        request = FetchRequest(-1, 0, 1, 1, 0, 0, -1, wanted, [])  # room for one batch only
        context.ask(fetch, VERSION, fetch_request(VERSION, request))

    starved = [event for event in events(context, FetchAnswered) if event.to_offset == event.offset]
    assert [event.watermark for event in starved] == [1, 1, 1]


@run()
async def test_a_fetch_that_waits_for_long_is_told_again_each_time_somebody_looks(context: HouseContext) -> None:
    trace_all(context)
    steps = context.house.trace.steps
    assert steps is not None
    get(context, 0)  # this second's fetch that is told
    get(context, 0, wait_ms=60_000)
    assert events(context, FetchWaits) == []

    context.house.clock.advance(900)
    steps.tell_waiting()
    assert events(context, FetchWaits) == []
    for _ in range(2):
        context.house.clock.advance(1000)
        steps.tell_waiting()

    assert [event.waited_us for event in events(context, FetchWaits)] == [1_900_000, 2_900_000]


@run()
async def test_a_fetch_that_was_answered_waits_no_longer(context: HouseContext) -> None:
    trace_all(context)
    steps = context.house.trace.steps
    assert steps is not None
    get(context, 0, wait_ms=500)
    send(context)
    await context.settle()

    assert steps.waiting == {}


@run()
async def test_a_client_that_hangs_up_drops_its_fetch(context: HouseContext) -> None:
    trace_all(context)
    asked = get(context, 0, wait_ms=500)
    context.house.clock.advance(30)

    assert asked.leave is not None
    asked.leave()
    asked.leave()

    assert [(event.topic, event.offset, event.waited_us) for event in events(context, FetchDropped)] == [
        ("orders", 0, 30_000)
    ]
    assert context.house.trace.steps is not None
    assert context.house.trace.steps.waiting == {}


@run()
async def test_a_fetch_is_its_groups_when_the_client_has_said_which(context: HouseContext) -> None:
    trace_all(context)
    assert context.house.trace.steps is not None
    context.house.trace.steps.readers.heard("billing", "test", "10.0.0.7", context.house.clock.now_us())

    get(context, 0)

    assert [event.group for event in events(context, FetchAnswered)] == ["billing"]


@run()
async def test_a_fetch_beyond_the_end_is_told_with_what_there_is(context: HouseContext) -> None:
    trace_all(context)

    get(context, 7)

    (told,) = events(context, RefusedEvent)
    assert (told.api, told.code, told.topic, told.partition) == ("fetch", Code.OFFSET_OUT_OF_RANGE, "orders", 0)
    assert told.reason == "asked for offset 7, and has 0 up to 0"
    assert events(context, FetchAnswered) == []


# --- other requests


def traced(context: RequestContext) -> tuple[RequestContext, Recorder]:
    recorder = Recorder(1, FakeClock())
    recorder.switch(is_all=True, exceptions=ALL)
    return dataclasses.replace(context, observation=recorder), recorder


def told_of(recorder: Recorder, kind: type[E]) -> list[E]:
    return [event for event in recorder.read().events if isinstance(event, kind)]


def test_metadata_tells_who_leads_as_the_client_was_told() -> None:
    context, recorder = traced(fake_context(topics={"orders": 2, "bills": 1}))

    ask(metadata, metadata.REQUEST(topics=None), context, version=13)

    told = {event.topic: event for event in told_of(recorder, MetadataTold)}
    assert list(told) == ["bills", "orders"]
    assert (told["orders"].brokers, told["orders"].leaders, told["orders"].controller) == ((1,), (1, 1), 1)


def test_metadata_of_a_topic_that_is_not_there_is_a_refusal() -> None:
    context, recorder = traced(fake_context())

    asked = metadata.REQUEST(topics=(MetadataTopic(name="nowhere"),), allow_auto_topic_creation=False)
    ask(metadata, asked, context, version=11)

    assert [(event.topic, event.error) for event in told_of(recorder, RefusedEvent)] == [
        ("nowhere", "UNKNOWN_TOPIC_OR_PARTITION")
    ]


def test_a_commit_tells_what_its_group_has_worked_off() -> None:
    """A commit tells what its group has worked off and whose fetches are the groups."""
    context, _ = grouped_context({"orders": 2})
    context, recorder = traced(context)
    part = CommitPartition(partition_index=1, committed_offset=42, committed_leader_epoch=3, committed_metadata="")
    topics = (CommitTopic(name="orders", partitions=(part,)),)

    ask(offset_commit, offset_commit.REQUEST(group_id="billing", topics=topics), context, version=9)

    (told,) = told_of(recorder, Committed)
    assert (told.topic, told.partition, told.group, told.offset) == ("orders", 1, "billing", 42)
    assert (told.client_id, told.host) == ("test", "127.0.0.1")
    assert recorder.steps is not None
    assert recorder.steps.readers.group_of("test", "127.0.0.1", 0) == "billing"


def test_list_offsets_of_a_partition_led_elsewhere_is_a_refusal() -> None:
    context, recorder = traced(fake_context(topics={"orders": 1}))
    wanted = ListOffsetsPartition(partition_index=5, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(ListOffsetsTopic(name="orders", partitions=(wanted,)),),
        timeout=datetime.timedelta(0),
    )

    ask(list_offsets, request, context, version=11)

    assert [(event.api, event.topic, event.partition) for event in told_of(recorder, RefusedEvent)] == [
        ("list_offsets", "orders", 5)
    ]


def test_a_refused_request_is_told_of_each_topic_that_it_names_or_once() -> None:
    context, recorder = traced(fake_context())
    topics = (CommitTopic(name="orders", partitions=()), CommitTopic(name="__own", partitions=()))
    caller = Caller("app", "10.0.0.7", 9, 4)

    for request in (offset_commit.REQUEST(group_id="g", topics=topics), object()):
        trace_refused_request(context, "offset_commit", caller, Code.NOT_COORDINATOR, "moved", request)

    told = [(event.topic, event.code, event.reason) for event in told_of(recorder, RefusedEvent)]
    assert told == [("orders", Code.NOT_COORDINATOR, "moved"), (None, Code.NOT_COORDINATOR, "moved")]
