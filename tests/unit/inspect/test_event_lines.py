"""Events as lines for people: every kind has one, and it says what somebody who looks for trouble wants to know."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chronik.inspect.event_lines import KINDS, STATE_KINDS, TROUBLE, clock_time, kind_of, line_of
from chronik.trace import events
from chronik.trace.events import AnyEvent, FollowerSeen, MemberSeen

WHO = ("my-client", "10.0.0.7", 5)

EVERY: list[tuple[AnyEvent, str]] = [
    (
        events.ProduceAppended(1, 2, "orders", 0, *WHO, -1, 7, 1, 40, 100, 110, 1500, False, 3, 90),
        "orders-0 appended offsets 100 to 109, 1.5 kB, acks all, producer 7.1 from sequence 40, "
        "by my-client at 10.0.0.7",
    ),
    (
        events.ProduceAppended(1, 2, "orders", 0, *WHO, 1, -1, -1, -1, 100, 101, 70, True, 3, 90),
        "orders-0 duplicate offset 100, 70 B, acks leader, by my-client at 10.0.0.7",
    ),
    (
        events.ProduceAnswered(1, 2, "orders", 0, *WHO, -1, 100, 110, 90, 110, (1, 2), 2500),
        "orders-0 answered offsets 100 to 109, acks all, watermark 90 -> 110, in sync [1, 2], after 2.5 ms, "
        "to my-client at 10.0.0.7",
    ),
    (
        events.ProduceAnswered(1, 2, "orders", 0, *WHO, 1, 100, 110, 90, 90, (1, 2), 2_500_000),
        "orders-0 answered offsets 100 to 109, acks leader, watermark still 90, in sync [1, 2], after 2.5 s, "
        "to my-client at 10.0.0.7",
    ),
    (events.Replicated(1, 2, "orders", 0, 3, 100, 110), "orders-0 replicated offsets 100 to 109 by node 3"),
    (
        events.WatermarkMoved(1, 2, "orders", 0, 90, 100, 110, is_leader=True),
        "orders-0 watermark 90 -> 100, next offset 110 (leader)",
    ),
    (
        events.FetchWaits(1, 2, "orders", 0, *WHO, "billing", 100, 1000, 1, 500, False, 100, 100, 110),
        "orders-0 fetch waits for offset 100, watermark 100, next offset 110, up to 500 ms for 1 B, "
        "by my-client at 10.0.0.7 (group billing)",
    ),
    (
        events.FetchAnswered(1, 2, "orders", 0, *WHO, None, 5, 1000, 1, 500, False, 9, 9, 9, 8, 300, True, 1200),
        "orders-0 fetched offsets 5 to 7, 300 B, watermark 9, after 1.2 ms, by my-client at 10.0.0.7",
    ),
    (
        events.FetchAnswered(1, 2, "orders", 0, *WHO, None, 5, 1000, 1, 500, False, 5, 5, 5, 5, 0, True, 500_000),
        "orders-0 fetched nothing from 5 on, watermark 5, after 500.0 ms, by my-client at 10.0.0.7",
    ),
    (
        events.FetchDropped(1, 2, "orders", 0, *WHO, None, 5, 500, 90_000),
        "orders-0 hung up from 5 on, after 90.0 ms of 500 ms, by my-client at 10.0.0.7",
    ),
    (
        events.RefusedEvent(1, 2, "produce", *WHO, 6, "NOT_LEADER_OR_FOLLOWER", "moved", "orders", 0, 3, 9),
        "orders-0 refused produce: NOT_LEADER_OR_FOLLOWER, moved, node 3 leads, to my-client at 10.0.0.7",
    ),
    (
        events.RefusedEvent(1, 2, "join_group", "", "", 5, 16, "NOT_COORDINATOR", None),
        "- refused join_group: NOT_COORDINATOR, to a client at an unknown place",
    ),
    (
        events.MetadataTold(1, 2, "orders", *WHO, (1, 2), 1, (2, 1)),
        "orders metadata nodes [1, 2], leaders [2, 1], to my-client at 10.0.0.7",
    ),
    (events.LeaderChanged(1, 2, "orders", 0, 1, 4, 2, 5), "orders-0 leader node 1 -> node 2, epoch 5"),
    (events.LeaderChanged(1, 2, "orders", 0, 1, 4, -1, 5), "orders-0 leader node 1 -> no node, epoch 5"),
    (events.InSyncChanged(1, 2, "orders", 0, (1, 2), (1,), 7), "orders-0 in sync [1, 2] -> [1]"),
    (events.GroupJoined(1, 2, "billing", "m-1", "c", "h"), "billing joins m-1, c at h"),
    (events.GroupLeft(1, 2, "billing", "m-1", "c", "h", "expired"), "billing expired m-1, c at h"),
    (
        events.GroupChanged(1, 2, "billing", "Empty", "Stable", 4, 1),
        "billing group Empty -> Stable, generation 4, 1 member",
    ),
    (
        events.Committed(1, 2, "orders", 0, "billing", "c", "h", 50),
        "orders-0 committed all below 50 by group billing, c at h",
    ),
    (
        events.PartitionSeen(
            1, 2, "orders", 0, 3, 0, 90, 90, 100, 100, (2, 1), 2, (FollowerSeen(1, True, 90, 10, 40, 5),), 999
        ),
        "orders-0 stands start 0, watermark 90, next 100, gap 10, in sync [2, 1], behind: node 1 by 10",
    ),
    (
        events.GroupSeen(1, 2, "billing", "classic", "Stable", 4, 0, (MemberSeen("m", "c", "h", ()),), ()),
        "billing stands Stable, generation 4, 1 member",
    ),
    (
        events.Committed(1, 2, "orders", 0, "billing", "", "", 50, 7),
        "orders-0 committed all below 50 by group billing, the transaction of producer 7",
    ),
    (
        events.OffsetPending(1, 2, "orders", 0, "billing", 7, 50),
        "orders-0 commits all below 50 by group billing, if the transaction of producer 7 does",
    ),
    (
        events.OffsetDropped(1, 2, "orders", 0, "billing", 7, 50, "aborted"),
        "orders-0 aborted offset 50 of group billing, from the transaction of producer 7",
    ),
    (events.TransactionBegun(1, 2, "t-1", 7, 0, 60_000), "t-1 begins producer 7.0, for 60000 ms"),
    (
        events.TransactionPartitionAdded(1, 2, "orders", 0, "t-1", 7, 0),
        "orders-0 added to t-1, producer 7.0",
    ),
    (
        events.TransactionPrepared(1, 2, "t-1", 7, 1, False, "timeout", 2, 60_000),
        "t-1 aborts producer 7.1, by timeout, 2 partitions, open for 60000 ms",
    ),
    (
        events.TransactionMarked(1, 2, "orders", 0, 7, 1, True, 44, 3, 5),
        "orders-0 marked commit marker at offset 44, producer 7.1, coordinator epoch 3",
    ),
    (
        events.TransactionCompleted(1, 2, "t-1", 7, 1, True, 12),
        "t-1 committed producer 7.1, all markers after 12 ms",
    ),
    (
        events.TransactionSeen(
            1,
            2,
            "t-1",
            7,
            1,
            "PrepareCommit",
            60_000,
            9_000,
            8_000,
            (("orders", 0), ("orders", 1)),
            (events.MarkerMissing("orders", 1, 3, "no answer"),),
        ),
        "t-1 stands PrepareCommit, producer 7.1, open for 9000 ms, 2 partitions, no marker in orders-1",
    ),
    (events.TraceBegan(1, 2), "- trace begins here"),
    (events.EventsLost(1, 2, 1200), "- lost 1,200 events did not make it into the trace topic"),
]


@pytest.mark.parametrize(("event", "words"), EVERY, ids=lambda each: "" if isinstance(each, str) else kind_of(each))
def test_an_event_is_told_in_words(event: AnyEvent, words: str) -> None:
    line = line_of(event)

    assert f"{line.subject} {line.verb} {line.words}" == words


def test_every_kind_of_event_has_its_line() -> None:
    assert {kind_of(event) for event, _ in EVERY} == set(KINDS)
    assert set(STATE_KINDS) < set(KINDS)


def test_the_time_is_that_of_the_day_to_the_microsecond() -> None:
    assert re.fullmatch(r"\d\d:\d\d:01\.000002", clock_time(1_000_002))


@pytest.mark.parametrize(
    ("event", "is_trouble"),
    [
        (events.RefusedEvent(1, 2, "fetch", *WHO, 1, "OFFSET_OUT_OF_RANGE", None), True),
        (events.LeaderChanged(1, 2, "orders", 0, 1, 4, -1, 5), True),
        (events.LeaderChanged(1, 2, "orders", 0, 1, 4, 2, 5), False),
        (events.InSyncChanged(1, 2, "orders", 0, (1, 2), (1,), 7), True),
        (events.InSyncChanged(1, 2, "orders", 0, (1,), (1, 2), 7), False),
        (events.MetadataTold(1, 2, "orders", *WHO, (1,), 1, (-1,)), True),
        (events.GroupLeft(1, 2, "g", "m", "c", "h", "expired"), True),
        (events.GroupLeft(1, 2, "g", "m", "c", "h", "left"), False),
    ],
)
def test_trouble_stands_out(event: AnyEvent, is_trouble: bool) -> None:
    assert (line_of(event).style == TROUBLE) == is_trouble


def test_what_is_no_event_has_no_line() -> None:
    nothing: Any = "appended"
    with pytest.raises(TypeError):
        line_of(nothing)
