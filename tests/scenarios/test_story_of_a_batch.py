"""One batch through three nodes, told by their traces: every step, in order, by whatever took it."""

from __future__ import annotations

from typing import TypeVar

from chronik.api import fetch, produce
from chronik.api.context import Caller
from chronik.trace.events import (
    AnyEvent,
    FetchAnswered,
    FetchWaits,
    InSyncChanged,
    LeaderChanged,
    ProduceAnswered,
    ProduceAppended,
    Replicated,
    WatermarkMoved,
)
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.framing import RequestHeader
from tests.unit.api.calls import call_of
from tests.unit.api.house_context import Asked
from tests.unit.core.log.logs import batch_of
from tests.unit.node.copies import TOPIC, Copies, CopyNode, pass_time, with_copies
from tests.unit.wire.hot_requests import fetch_request, produce_request

E = TypeVar("E")
VERSION = 12
LEADER, SECOND, THIRD = 1, 2, 3


def trace_all(copies: Copies) -> None:
    for node_id in (LEADER, SECOND, THIRD):
        copies[node_id].trace.switch(is_all=True, exceptions=frozenset())


def send(node: CopyNode, batch: bytes) -> Asked:
    asked = Asked(0, VERSION)
    body = produce_request(VERSION, None, -1, 30_000, [(TOPIC, [(0, batch)])])
    header = RequestHeader(0, VERSION, 9, "shop", 0)
    produce.start(call_of(bytearray(body), header, Caller("shop", "10.0.0.7", VERSION, 5), asked), node.context)
    return asked


def get(node: CopyNode, offset: int) -> Asked:
    asked = Asked(1, VERSION)
    request = FetchRequest(-1, 30_000, 1, 10**7, 0, 0, -1, [FetchPartition(TOPIC, 0, offset, 1_000_000, -1)], [])
    header = RequestHeader(1, VERSION, 9, "bill", 0)
    body = bytearray(fetch_request(VERSION, request))
    fetch.start(call_of(body, header, Caller("bill", "10.0.0.8", VERSION, 6), asked), node.context)
    return asked


def told(copies: Copies, node_id: int, kind: type[E]) -> list[E]:
    return [event for event in copies[node_id].trace.read().events if isinstance(event, kind)]


def everything(copies: Copies) -> list[AnyEvent]:
    """Of all nodes, by time; in one moment, in the order of each node."""
    events = [event for node_id in (LEADER, SECOND, THIRD) for event in copies[node_id].trace.read(1).events]
    return sorted(events, key=lambda event: event.at_us)


@with_copies()
async def test_the_whole_story_of_a_batch(copies: Copies) -> None:
    await pass_time(100)  # everybody has found everybody
    trace_all(copies)
    get(copies[LEADER], 0)
    asked = send(copies[LEADER], bytes(batch_of(4, producer_id=7, sequence=0)))
    await pass_time(2000)

    assert asked.response.responses[0].partition_responses[0].error_code == 0
    story = [event for event in everything(copies) if event.node == LEADER]
    assert [type(event) for event in story[:2]] == [FetchWaits, ProduceAppended]
    replicated = [event for event in story if isinstance(event, Replicated)]
    assert sorted((event.follower, event.from_offset, event.to_offset) for event in replicated) == [
        (SECOND, 0, 4),
        (THIRD, 0, 4),
    ]
    (moved,) = [event for event in story if isinstance(event, WatermarkMoved)]
    (answered,) = [event for event in story if isinstance(event, ProduceAnswered)]
    (given,) = [event for event in story if isinstance(event, FetchAnswered)]
    assert (moved.before, moved.watermark, moved.is_leader) == (0, 4, True)
    assert story.index(replicated[-1]) < story.index(moved) < min(story.index(answered), story.index(given))
    assert (answered.watermark_before, answered.watermark, answered.in_sync) == (0, 4, (LEADER, SECOND, THIRD))
    assert answered.took_us > 0
    assert (given.client_id, given.offset, given.to_offset, given.has_waited) == ("bill", 0, 4, True)
    for follower in (SECOND, THIRD):
        (heard,) = told(copies, follower, WatermarkMoved)
        assert (heard.watermark, heard.is_leader) == (4, False)
        assert heard.at_us >= moved.at_us


@with_copies()
async def test_a_batch_that_a_follower_does_not_fetch_has_no_answer(copies: Copies) -> None:
    await pass_time(100)
    trace_all(copies)
    await copies.stop(THIRD)

    send(copies[LEADER], bytes(batch_of()))
    await pass_time(2000)

    assert len(told(copies, LEADER, ProduceAppended)) == 1
    assert [event.follower for event in told(copies, LEADER, Replicated)] == [SECOND]
    assert told(copies, LEADER, WatermarkMoved) == []
    assert told(copies, LEADER, ProduceAnswered) == []


@with_copies()
async def test_another_leader_and_another_in_sync_set_are_told_by_who_has_the_partition(copies: Copies) -> None:
    await pass_time(100)
    trace_all(copies)

    copies.change(isr=(SECOND, THIRD), leader=SECOND)
    await pass_time(100)
    copies.change(isr=(SECOND,))

    for node_id in (LEADER, SECOND, THIRD):
        (changed,) = told(copies, node_id, LeaderChanged)
        assert (changed.leader_before, changed.leader_epoch_before) == (LEADER, 0)
        assert (changed.leader, changed.leader_epoch) == (SECOND, 1)
    assert [(event.before, event.in_sync) for event in told(copies, SECOND, InSyncChanged)] == [
        ((), (SECOND, THIRD)),
        ((SECOND, THIRD), (SECOND,)),
    ]
    assert told(copies, LEADER, InSyncChanged) == []


@with_copies()
async def test_a_watermark_that_moves_all_the_time_is_told_every_few_milliseconds(
    copies: Copies,
) -> None:
    """A watermark that moves all the time is told every few milliseconds and in the end."""
    await pass_time(100)
    for node_id in (LEADER, SECOND, THIRD):
        copies[node_id].trace.later = copies[node_id].deadlines.after_ms
    trace_all(copies)

    for _ in range(40):
        send(copies[LEADER], bytes(batch_of()))
        await pass_time(1)
    await pass_time(500)

    moves = told(copies, LEADER, WatermarkMoved)
    assert len(moves) < 20
    assert [event.before for event in moves] == [0, *(event.watermark for event in moves[:-1])]
    assert moves[-1].watermark == 40
    assert len(told(copies, LEADER, ProduceAnswered)) == 40
