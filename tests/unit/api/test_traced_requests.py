"""What requests tell the trace: each step of a batch and of a fetch, and every refusal."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import TypeVar

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from chronik.api import fetch, list_offsets, metadata, offset_commit, produce
from chronik.api.desk import Caller, Desk
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
from chronik.wire.unions.metadata import Topic as MetadataTopic
from chronik.wire.unions.offset_commit import Partition as CommitPartition
from chronik.wire.unions.offset_commit import Topic as CommitTopic
from tests.unit.api.fake_desk import FakeClock, ask, fake_desk
from tests.unit.api.grouped_desk import grouped_desk
from tests.unit.api.house_desk import WAITING, Asked, HouseDesk, run
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NODE_ID
from tests.unit.wire.hot_requests import fetch_request, produce_request

E = TypeVar("E")
VERSION = 12
ALL = frozenset[str]()


def send(desk: HouseDesk, batch: bytes | None = None, *, acks: int = 1, topic: str = "orders", to: int = 0) -> Asked:
    records = bytes(batch_of()) if batch is None else batch
    return desk.ask(produce, VERSION, produce_request(VERSION, None, acks, 1000, [(topic, [(to, records)])]))


def get(desk: HouseDesk, offset: int, *, wait_ms: int = 0, partitions: tuple[int, ...] = (0,)) -> Asked:
    wanted = [FetchPartition("orders", partition, offset, 1_000_000, -1) for partition in partitions]
    request = FetchRequest(-1, wait_ms, 1, 50_000_000, 1, 0, -1, wanted, [])
    return desk.ask(fetch, VERSION, fetch_request(VERSION, request))


def events(desk: HouseDesk, kind: type[E]) -> list[E]:
    return [event for event in desk.house.trace.read().events if isinstance(event, kind)]


def trace_all(desk: HouseDesk) -> None:
    desk.house.trace.switch(is_all=True, exceptions=ALL)


# --- producing


@run()
async def test_a_batch_tells_who_sent_it_and_where_it_stands(desk: HouseDesk) -> None:
    trace_all(desk)
    batch = bytes(batch_of(3, producer_id=7, producer_epoch=2, sequence=5))

    send(desk, batch, acks=-1)
    await desk.settle()

    now_us = desk.house.clock.now_us()
    assert events(desk, ProduceAppended) == [
        ProduceAppended(now_us, NODE_ID, "orders", 0, "test", "10.0.0.7", 1, -1, 7, 2, 5, 0, 3, len(batch), False, 0, 0)
    ]
    assert events(desk, ProduceAnswered) == [
        ProduceAnswered(now_us, NODE_ID, "orders", 0, "test", "10.0.0.7", 1, -1, 0, 3, 0, 3, (NODE_ID,), 0)
    ]
    assert events(desk, WatermarkMoved) == [WatermarkMoved(now_us, NODE_ID, "orders", 0, 0, 3, 3, True)]


@run()
async def test_the_steps_of_a_batch_are_told_in_their_order(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk, acks=-1)
    await desk.settle()

    desk.house.clock.advance(1)
    send(desk, acks=-1)
    await desk.settle()

    told = desk.house.trace.read(1).events
    assert [event.base_offset for event in told if isinstance(event, ProduceAppended)] == [0, 1]
    assert [event.at_us for event in told] == sorted(event.at_us for event in told)


@run()
async def test_batches_that_are_soon_answered_are_one_line(desk: HouseDesk) -> None:
    trace_all(desk)
    stored: list[Chunk] = []
    desk.house.trace.seal()
    desk.house.trace.on_sealed = stored.append

    send(desk)
    send(desk)
    desk.house.clock.advance(25)
    await desk.settle()
    desk.house.trace.seal()

    (chunk,) = stored
    assert [json.loads(line)["kind"] for line in chunk.lines.splitlines()] == ["watermark_moved", "batch_run"]
    assert chunk.events == 5
    for appended, answered in zip(events(desk, ProduceAppended), events(desk, ProduceAnswered), strict=True):
        assert (answered.at_us - appended.at_us, answered.took_us) == (25_000, 25_000)


@run()
async def test_a_batch_that_waits_is_written_down_before_its_answer_comes(desk: HouseDesk) -> None:
    trace_all(desk)
    desk.house.trace.seal()
    send(desk)
    desk.house.clock.advance(UNANSWERED_US // 1000 - 1)
    desk.house.trace.seal()
    assert desk.house.trace.added == 1  # that the trace began

    desk.house.clock.advance(1)
    desk.house.trace.seal()
    assert desk.house.trace.added == 2

    await desk.settle()
    assert [type(event) for event in desk.house.trace.read(1).events] == [
        ProduceAppended,
        WatermarkMoved,
        ProduceAnswered,
    ]


@run()
async def test_who_looks_sees_a_batch_at_once_and_its_answer_later(desk: HouseDesk) -> None:
    trace_all(desk)
    send(desk)

    read = desk.house.trace.read()
    await desk.settle()

    assert [type(event) for event in read.events] == [TraceBegan, ProduceAppended]
    later = [type(event) for event in desk.house.trace.read(read.cursor).events]
    assert later == [WatermarkMoved, ProduceAnswered]


@run()
async def test_a_batch_under_way_is_told_when_the_trace_is_switched_off(desk: HouseDesk) -> None:
    trace_all(desk)
    send(desk)
    desk.house.trace.switch(is_all=False, exceptions=ALL)

    assert len(events(desk, ProduceAppended)) == 1


@run()
async def test_how_long_an_answer_took_is_measured(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk)
    desk.house.clock.advance(25)
    await desk.settle()

    assert [event.took_us for event in events(desk, ProduceAnswered)] == [25_000]


@run()
async def test_a_batch_that_is_not_safe_yet_has_no_answer_in_the_trace(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk, acks=-1)

    assert len(events(desk, ProduceAppended)) == 1
    assert events(desk, ProduceAnswered) == []
    await desk.settle()


@run(is_synced=False)
async def test_the_time_of_an_append_is_not_after_the_move_that_it_caused(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk)

    assert [event.watermark for event in events(desk, ProduceAppended)] == [0]
    assert [(event.watermark_before, event.watermark) for event in events(desk, ProduceAnswered)] == [(0, 1)]
    assert events(desk, ProduceAppended)[0].at_us <= events(desk, WatermarkMoved)[0].at_us


@run()
async def test_a_retry_is_told_as_a_duplicate_with_the_offsets_of_the_first(desk: HouseDesk) -> None:
    trace_all(desk)
    batch = bytes(batch_of(2, producer_id=7, sequence=0))

    for _ in range(2):
        send(desk, batch)
        await desk.settle()

    told = [(event.base_offset, event.to_offset, event.is_duplicate) for event in events(desk, ProduceAppended)]
    assert told == [(0, 2, False), (0, 2, True)]


@run()
async def test_without_acknowledgement_there_is_an_append_and_no_answer(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk, acks=0)
    await desk.settle()

    assert [event.acks for event in events(desk, ProduceAppended)] == [0]
    assert events(desk, ProduceAnswered) == []


@run()
async def test_a_refused_batch_is_told_with_its_code_and_reason(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk, to=9)
    send(desk, acks=5)

    told = [(event.api, event.topic, event.partition, event.error) for event in events(desk, RefusedEvent)]
    assert told == [
        ("produce", "orders", 9, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("produce", "orders", 0, "INVALID_REQUIRED_ACKS"),
    ]
    assert [(event.client_id, event.host, event.connection) for event in events(desk, RefusedEvent)] == [
        ("test", "10.0.0.7", 1)
    ] * 2
    assert [(event.leader, event.leader_epoch) for event in events(desk, RefusedEvent)] == [(-1, -1), (NODE_ID, 0)]


@run()
async def test_a_batch_that_timed_out_is_refused_in_the_trace_and_not_answered(desk: HouseDesk) -> None:
    trace_all(desk)

    send(desk, acks=-1)
    desk.house.loop.advance(1001)
    await desk.settle()  # it is safe now, and nobody waits for that any more

    assert [event.error for event in events(desk, RefusedEvent)] == ["REQUEST_TIMED_OUT"]
    assert len(events(desk, ProduceAppended)) == 1
    assert events(desk, ProduceAnswered) == []


@run()
async def test_a_producer_that_hung_up_is_not_answered(desk: HouseDesk) -> None:
    trace_all(desk)
    asked = send(desk)

    assert asked.leave is not None
    asked.leave()
    await desk.settle()  # it is safe now

    assert len(events(desk, ProduceAppended)) == 1
    assert events(desk, ProduceAnswered) == []


@run({"orders": 1, "bills": 1})
async def test_a_topic_that_is_not_traced_tells_nothing(desk: HouseDesk) -> None:
    desk.house.trace.switch(is_all=False, exceptions=frozenset({"bills"}))

    send(desk, acks=-1)
    get(desk, 0)
    send(desk, to=9)
    await desk.settle()

    assert len(desk.house.trace.read().events) == 1  # where it begins


@run()
async def test_switched_off_it_tells_nothing(desk: HouseDesk) -> None:
    send(desk, acks=-1)
    get(desk, 0)
    await desk.settle()

    assert desk.house.trace.read().events == []


# --- consuming


@run()
async def test_a_fetch_tells_what_it_gave(desk: HouseDesk) -> None:
    send(desk, bytes(batch_of(3)))
    await desk.settle()
    trace_all(desk)

    get(desk, 1)

    (told,) = events(desk, FetchAnswered)
    assert (told.topic, told.partition, told.offset, told.to_offset) == ("orders", 0, 1, 3)
    assert (told.watermark, told.last_stable_offset, told.next_offset) == (3, 3, 3)
    assert (told.max_bytes, told.min_bytes, told.max_wait_ms, told.is_committed_only) == (1_000_000, 1, 0, True)
    assert told.size_bytes == len(batch_of(3))
    assert not told.has_waited


@run()
async def test_a_fetch_that_waits_is_told_and_so_is_its_end(desk: HouseDesk) -> None:
    trace_all(desk)
    asked = get(desk, 0, wait_ms=500)
    assert asked.raw is WAITING
    desk.house.clock.advance(100)

    send(desk)
    await desk.settle()

    (waits,), (answered,) = events(desk, FetchWaits), events(desk, FetchAnswered)
    assert (waits.offset, waits.watermark, waits.max_wait_ms, waits.waited_us) == (0, 0, 500, 0)
    assert (answered.to_offset, answered.has_waited, answered.took_us) == (1, True, 100_000)


@run()
async def test_fetches_that_give_nothing_are_told_once_a_second_for_each_connection(desk: HouseDesk) -> None:
    trace_all(desk)
    for _ in range(5):
        get(desk, 0)
        desk.house.clock.advance(400)

    assert [event.offset for event in events(desk, FetchAnswered)] == [0, 0]


@run()
async def test_a_fetch_that_gives_nothing_although_there_is_something_is_always_told(desk: HouseDesk) -> None:
    for partition in (0, 1):
        send(desk, to=partition)
    await desk.settle()
    trace_all(desk)

    for _ in range(3):
        wanted = [FetchPartition("orders", partition, 0, 1, -1) for partition in (0, 1)]
        request = FetchRequest(-1, 0, 1, 1, 0, 0, -1, wanted, [])  # room for one batch only
        desk.ask(fetch, VERSION, fetch_request(VERSION, request))

    starved = [event for event in events(desk, FetchAnswered) if event.to_offset == event.offset]
    assert [event.watermark for event in starved] == [1, 1, 1]


@run()
async def test_a_fetch_that_waits_for_long_is_told_again_each_time_somebody_looks(desk: HouseDesk) -> None:
    trace_all(desk)
    steps = desk.house.trace.steps
    assert steps is not None
    get(desk, 0)  # this second's fetch that is told
    get(desk, 0, wait_ms=60_000)
    assert events(desk, FetchWaits) == []

    desk.house.clock.advance(900)
    steps.tell_waiting()
    assert events(desk, FetchWaits) == []
    for _ in range(2):
        desk.house.clock.advance(1000)
        steps.tell_waiting()

    assert [event.waited_us for event in events(desk, FetchWaits)] == [1_900_000, 2_900_000]


@run()
async def test_a_fetch_that_was_answered_waits_no_longer(desk: HouseDesk) -> None:
    trace_all(desk)
    steps = desk.house.trace.steps
    assert steps is not None
    get(desk, 0, wait_ms=500)
    send(desk)
    await desk.settle()

    assert steps.waiting == {}


@run()
async def test_a_client_that_hangs_up_drops_its_fetch(desk: HouseDesk) -> None:
    trace_all(desk)
    asked = get(desk, 0, wait_ms=500)
    desk.house.clock.advance(30)

    assert asked.leave is not None
    asked.leave()
    asked.leave()

    assert [(event.topic, event.offset, event.waited_us) for event in events(desk, FetchDropped)] == [
        ("orders", 0, 30_000)
    ]
    assert desk.house.trace.steps is not None
    assert desk.house.trace.steps.waiting == {}


@run()
async def test_a_fetch_is_its_groups_when_the_client_has_said_which(desk: HouseDesk) -> None:
    trace_all(desk)
    assert desk.house.trace.steps is not None
    desk.house.trace.steps.readers.heard("billing", "test", "10.0.0.7", desk.house.clock.now_us())

    get(desk, 0)

    assert [event.group for event in events(desk, FetchAnswered)] == ["billing"]


@run()
async def test_a_fetch_beyond_the_end_is_told_with_what_there_is(desk: HouseDesk) -> None:
    trace_all(desk)

    get(desk, 7)

    (told,) = events(desk, RefusedEvent)
    assert (told.api, told.code, told.topic, told.partition) == ("fetch", Code.OFFSET_OUT_OF_RANGE, "orders", 0)
    assert told.reason == "asked for offset 7, and has 0 up to 0"
    assert events(desk, FetchAnswered) == []


# --- other requests


def traced(desk: Desk) -> tuple[Desk, Recorder]:
    recorder = Recorder(1, FakeClock())
    recorder.switch(is_all=True, exceptions=ALL)
    return dataclasses.replace(desk, trace=recorder), recorder


def told_of(recorder: Recorder, kind: type[E]) -> list[E]:
    return [event for event in recorder.read().events if isinstance(event, kind)]


def test_metadata_tells_who_leads_as_the_client_was_told() -> None:
    desk, recorder = traced(fake_desk(topics={"orders": 2, "bills": 1}))

    ask(metadata, metadata.REQUEST(topics=None), desk, version=13)

    told = {event.topic: event for event in told_of(recorder, MetadataTold)}
    assert list(told) == ["bills", "orders"]
    assert (told["orders"].brokers, told["orders"].leaders, told["orders"].controller) == ((1,), (1, 1), 1)


def test_metadata_of_a_topic_that_is_not_there_is_a_refusal() -> None:
    desk, recorder = traced(fake_desk())

    asked = metadata.REQUEST(topics=(MetadataTopic(name="nowhere"),), allow_auto_topic_creation=False)
    ask(metadata, asked, desk, version=11)

    assert [(event.topic, event.error) for event in told_of(recorder, RefusedEvent)] == [
        ("nowhere", "UNKNOWN_TOPIC_OR_PARTITION")
    ]


def test_a_commit_tells_what_its_group_has_worked_off_and_whose_fetches_are_the_groups() -> None:
    desk, _ = grouped_desk({"orders": 2})
    desk, recorder = traced(desk)
    part = CommitPartition(partition_index=1, committed_offset=42, committed_leader_epoch=3, committed_metadata="")
    topics = (CommitTopic(name="orders", partitions=(part,)),)

    ask(offset_commit, offset_commit.REQUEST(group_id="billing", topics=topics), desk, version=9)

    (told,) = told_of(recorder, Committed)
    assert (told.topic, told.partition, told.group, told.offset) == ("orders", 1, "billing", 42)
    assert (told.client_id, told.host) == ("test", "127.0.0.1")
    assert recorder.steps is not None
    assert recorder.steps.readers.group_of("test", "127.0.0.1", 0) == "billing"


def test_list_offsets_of_a_partition_led_elsewhere_is_a_refusal() -> None:
    desk, recorder = traced(fake_desk(topics={"orders": 1}))
    wanted = ListOffsetsPartition(partition_index=5, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(ListOffsetsTopic(name="orders", partitions=(wanted,)),),
        timeout=datetime.timedelta(0),
    )

    ask(list_offsets, request, desk, version=11)

    assert [(event.api, event.topic, event.partition) for event in told_of(recorder, RefusedEvent)] == [
        ("list_offsets", "orders", 5)
    ]


def test_a_refused_request_is_told_of_each_topic_that_it_names_or_once() -> None:
    desk, recorder = traced(fake_desk())
    topics = (CommitTopic(name="orders", partitions=()), CommitTopic(name="__own", partitions=()))
    caller = Caller("app", "10.0.0.7", 9, 4)

    for request in (offset_commit.REQUEST(group_id="g", topics=topics), object()):
        trace_refused_request(desk, "offset_commit", caller, Code.NOT_COORDINATOR, "moved", request)

    told = [(event.topic, event.code, event.reason) for event in told_of(recorder, RefusedEvent)]
    assert told == [("orders", Code.NOT_COORDINATOR, "moved"), (None, Code.NOT_COORDINATOR, "moved")]
