"""What a node tells when it is looked at."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Refused
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.metadata.image import Broker, Partition, Topic
from chronik.http import inspect_views
from chronik.trace.events import AnyEvent, EventsLost, GroupLeft, PartitionSeen, RefusedEvent, WatermarkMoved
from chronik.trace.inspections import ClusterStateView, CopySeen, EventsView, NodeSeen, StateView, Traces, UnopenedSeen
from chronik.trace.recorder import Recorder
from tests.unit.http.fake_node import CLUSTER_ID, FakeNode

T = TypeVar("T")


def look(node: FakeNode, kind: type[T], view: str, **arguments: Any) -> T:
    """As a program around the node reads it: over JSON."""
    return msgspec.json.decode(asyncio.run(inspect_views.answer(node.as_node, view, arguments)), type=kind)


def refusal(node: FakeNode, view: str, **arguments: Any) -> str:
    with pytest.raises(Refused) as refused:
        asyncio.run(inspect_views.answer(node.as_node, view, arguments))
    return str(refused.value)


def test_an_unknown_view_is_refused_with_those_there_are() -> None:
    words = refusal(FakeNode(), "nonsense")

    assert "nonsense" in words
    assert "cluster, events" in words


@pytest.mark.parametrize(
    ("view", "arguments"),
    [
        ("state", {"topics": "orders"}),
        ("state", {"topics": [5]}),
        ("events", {"cursor": "x"}),
        ("events", {"limit": None}),
        ("events", {"kinds": 5}),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(view: str, arguments: dict[str, Any]) -> None:
    (name,) = arguments

    assert name in refusal(FakeNode(), view, **arguments)


def test_arguments_that_this_version_does_not_know_are_passed_over() -> None:
    assert look(FakeNode(), StateView, "state", colour="green").node == 7


# --- who is there


def test_a_node_names_all_nodes_it_knows_where_clients_find_them() -> None:
    node = FakeNode()
    node.image.brokers[9] = Broker(9, 0, bytes(16), "there", 1909, None, is_fenced=True)
    node.image.brokers[7] = Broker(7, 0, bytes(16), "here", 1907, None, is_fenced=False)
    node.cluster.metadata.controller_id = 9

    seen = look(node, ClusterStateView, "cluster")

    assert (seen.node, seen.cluster_id, seen.controller, seen.is_ready) == (7, CLUSTER_ID, 9, True)
    assert seen.nodes == (
        NodeSeen(7, "here", 1907, is_alive=True),
        NodeSeen(9, "there", 1909, is_alive=False),
    )


def test_a_node_that_is_still_starting_names_itself_and_those_of_its_config() -> None:
    node = FakeNode()
    node.config = NodeConfig.from_settings(
        {"node.id": "7", "controller.quorum.voters": "7@a:9092,8@b:2", "cluster.id": "c"}
    )
    node.is_ready = False

    seen = look(node, ClusterStateView, "cluster")

    assert not seen.is_ready
    assert seen.controller == -1
    assert [(each.id, each.host, each.port, each.is_alive) for each in seen.nodes] == [
        (7, "a", 9092, False),
        (8, "b", 2, False),
    ]


# --- how things stand


def test_a_partition_is_told_with_its_gap_and_its_followers() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, start=10, watermark=90, end=100)

    (seen,) = look(node, StateView, "state").partitions

    assert (seen.log_start, seen.last_stable_offset, seen.watermark, seen.next_offset) == (10, 90, 90, 100)
    assert [each.node for each in seen.followers] == [2]


def test_every_copy_is_told_also_those_that_are_led_elsewhere_or_cannot_be_read() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, watermark=5, end=5, size=70).follow(leader_id=9, leader_epoch=3, partition_epoch=1)
    node.replicas.add("orders", 1, watermark=5, end=5).take_offline("disk")
    node.replicas.failed["bills", 0] = "bad magic"

    seen = look(node, StateView, "state")

    assert seen.partitions == ()
    followed, offline, failed = seen.copies
    assert followed == CopySeen("orders", 0, False, 9, 3, 0, 5, 5, 5, 5, 70)
    assert (offline.partition, offline.offline) == (1, "disk")
    assert (failed.topic, failed.next_offset, failed.offline) == ("bills", -1, "bad magic")


def test_unopened_and_leaderless_partitions_are_shown_as_the_image_has_them() -> None:
    """Partitions that nobody asked for yet and those that nobody leads are told by what the image says."""
    node = FakeNode()
    led_here, led_by_nobody = Partition(7, 3, (7, 9), (7,), 0), Partition(-1, 4, (9,), (9,), 0)
    elsewhere = Partition(9, 1, (9, 7), (9, 7), 0)
    node.image.topics["orders"] = Topic("orders", bytes(16), [led_here, led_here, led_by_nobody, elsewhere])
    node.replicas.add("orders", 0)

    seen = look(node, StateView, "state")

    assert seen.unopened == (
        UnopenedSeen("orders", 1, 7, 3, (7, 9), (7,)),
        UnopenedSeen("orders", 2, -1, 4, (9,), (9,)),
    )
    assert look(node, StateView, "state", topics=["bills"]).unopened == ()


def test_only_the_topics_that_are_asked_for_are_told() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, end=5)
    node.replicas.add("bills", 0, end=5)
    node.replicas.failed["orders", 1] = "gone"

    seen = look(node, StateView, "state", topics=["bills"])

    assert {each.topic for each in seen.copies} == {"bills"}
    assert {each.topic for each in seen.partitions} == {"bills"}
    assert seen.totals.led == 2
    assert look(node, StateView, "state", topics=[]).copies == ()


def test_groups_that_are_coordinated_here_are_told() -> None:
    node = FakeNode()
    node.machines[0].groups["billing"] = ClassicGroup("billing")

    assert [each.group for each in look(node, StateView, "state").groups] == ["billing"]


def test_a_look_at_many_partitions_lets_others_have_their_turn() -> None:
    node = FakeNode()
    for partition in range(2 * inspect_views.PARTITIONS_A_TURN):
        node.replicas.add("orders", partition)
    turns = 0

    async def look_beside_others() -> None:
        nonlocal turns
        looking = asyncio.create_task(inspect_views.answer(node.as_node, "state", {}))
        while not looking.done():
            turns += 1
            await asyncio.sleep(0)
        await looking

    asyncio.run(look_beside_others())

    assert turns >= 3


# --- what was traced


def moved(topic: str, watermark: int) -> WatermarkMoved:
    return WatermarkMoved(1, 7, topic, 0, watermark - 1, watermark, watermark, is_leader=True)


def traced(*events: AnyEvent) -> FakeNode:
    node = FakeNode()
    for event in events:
        node.trace.add(event)
    return node


def test_a_node_that_traces_nothing_says_so() -> None:
    seen = look(FakeNode(), EventsView, "events")

    assert seen.events == ()
    assert (seen.cursor, seen.lost, seen.is_more) == (0, 0, False)
    assert not seen.traces.is_on


def test_what_is_traced_is_told() -> None:
    node = traced(moved("orders", 1))
    node.trace.switch(is_all=True, exceptions=frozenset(["b", "a"]))

    seen = look(node, ClusterStateView, "cluster").traces

    assert seen == Traces(True, ("a", "b"), added=node.trace.added, kept=node.trace.kept)
    assert seen.is_on


def test_who_looks_again_is_told_what_came_since() -> None:
    node = traced(moved("orders", 1), moved("orders", 2))
    first = look(node, EventsView, "events")
    node.trace.add(moved("orders", 3))

    second = look(node, EventsView, "events", cursor=first.cursor)

    assert first.events == (moved("orders", 1), moved("orders", 2))
    assert second.events == (moved("orders", 3),)
    assert look(node, EventsView, "events", cursor=second.cursor).events == ()


def test_more_than_fits_comes_in_parts_and_nothing_twice() -> None:
    events = [moved("orders" if number % 3 else "bills", number) for number in range(1, 30)]
    node = traced(*events)
    found: list[AnyEvent] = []
    cursor, is_more = 0, True

    while is_more:
        seen = look(node, EventsView, "events", cursor=cursor, limit=4, topics=["orders"])
        found += seen.events
        cursor, is_more = seen.cursor, seen.is_more
        assert len(seen.events) <= 4

    assert found == [event for event in events if event.topic == "orders"]
    assert cursor == len(events)


def test_events_that_were_let_go_are_counted() -> None:
    node = traced(*(moved("orders", number) for number in range(1, 251)))

    seen = look(node, EventsView, "events", cursor=50)

    assert seen.lost == 100
    assert len(seen.events) == 100


@pytest.mark.parametrize("arguments", [{}, {"last": 10, "kinds": ["group_left"]}, {"limit": 5000}])
def test_a_look_at_many_events_lets_others_have_their_turn(arguments: dict[str, Any]) -> None:
    node = FakeNode()
    node.trace = Recorder(7, node.clock, ring_events=20_000)
    for number in range(4_000):
        node.trace.add(moved("orders", number))
    turns = 0

    async def look_beside_others() -> None:
        nonlocal turns
        looking = asyncio.create_task(inspect_views.events(node.as_node, arguments))
        while not looking.done():
            turns += 1
            await asyncio.sleep(0)
        assert len(looking.result().events) == (0 if "last" in arguments else 4_000)

    asyncio.run(look_beside_others())

    assert turns > 4_000 / inspect_views.EVENTS_A_TURN / 2


def test_the_newest_are_found_though_the_oldest_are_let_go_meanwhile() -> None:
    node = FakeNode()
    node.trace = Recorder(7, node.clock, ring_events=3_000)
    left = GroupLeft(1, 7, "billing", "m", "c", "h", "left")
    for number in range(1, 3_001):
        node.trace.add(left if number == 2_950 else moved("orders", number))

    async def look_while_more_comes() -> EventsView:
        looking = asyncio.create_task(inspect_views.events(node.as_node, {"last": 10, "kinds": ["group_left"]}))
        while not looking.done():
            await asyncio.sleep(0)
            for number in range(2_000):
                node.trace.add(moved("orders", number))
        return looking.result()

    assert asyncio.run(look_while_more_comes()).events == (left,)


def test_a_cursor_of_an_earlier_process_begins_anew() -> None:
    node = traced(moved("orders", 1))

    seen = look(node, EventsView, "events", cursor=9_999)

    assert seen.events == (moved("orders", 1),)
    assert seen.cursor == 1


def test_events_of_groups_come_whatever_the_topic() -> None:
    left = GroupLeft(1, 7, "billing", "m", "c", "h", "left")
    node = traced(moved("orders", 1), left, moved("bills", 1))

    assert look(node, EventsView, "events", topics=["bills"]).events == (left, moved("bills", 1))


def test_only_the_kinds_that_are_asked_for_are_told() -> None:
    left = GroupLeft(1, 7, "billing", "m", "c", "h", "left")
    node = traced(moved("orders", 1), left)

    assert look(node, EventsView, "events", kinds=["group_left"]).events == (left,)


@pytest.mark.parametrize(("last", "watermarks"), [(0, []), (2, [8, 9]), (50, list(range(1, 10)))])
def test_the_last_few_can_be_asked_for(last: int, watermarks: list[int]) -> None:
    node = traced(*(moved("orders", number) for number in range(1, 10)), moved("bills", 1))

    seen = look(node, EventsView, "events", last=last, topics=["orders"])

    assert [event.watermark for event in seen.events if isinstance(event, WatermarkMoved)] == watermarks
    assert seen.cursor == 10


# --- what stalls


def test_the_history_of_a_node_ends_with_how_things_stand() -> None:
    """The history of a node ends with how things stand and leaves out what others lead now."""
    refused = RefusedEvent(1, 7, "produce", "c", "h", 1, 6, "NOT_LEADER_OR_FOLLOWER", None, "moved", 0)
    left = GroupLeft(1, 7, "billing", "m", "c", "h", "left")
    node = traced(moved("orders", 1), moved("moved", 1), refused, left)
    node.replicas.add("orders", 0, watermark=5, end=5)
    node.replicas.add("moved", 0, watermark=5, end=5).follow(leader_id=9, leader_epoch=1, partition_epoch=1)

    events, now_us = asyncio.run(inspect_views.history(node.as_node))

    assert events[:-1] == [moved("orders", 1), refused, left]
    assert isinstance(events[-1], PartitionSeen)
    assert (events[-1].topic, events[-1].at_us) == ("orders", now_us)


def test_a_node_that_can_tell_nothing_says_that_nothing_stalls() -> None:
    told = msgspec.json.decode(inspect_views.stalls(7, False, [], 123))

    assert told == {
        "node": 7, "scope": inspect_views.ONE_NODE, "now_us": 123, "is_traced": False, "known_seconds": None,
        "stalls": [],
    }  # fmt: skip


def test_a_node_whose_memory_is_short_says_how_far_back_it_goes() -> None:
    told = msgspec.json.decode(inspect_views.stalls(7, True, [EventsLost(1_000_000, 7, 50_000)], 2_500_000))

    assert (told["known_seconds"], told["stalls"]) == (1.5, [])


def test_what_the_ring_has_let_go_is_a_hole_in_the_history_of_a_node() -> None:
    node = FakeNode()
    node.trace = Recorder(7, node.trace.clock, ring_events=2)
    for watermark in range(1, 7):
        node.trace.add(moved("orders", watermark))
    node.replicas.add("orders", 0, watermark=5, end=5)

    events, _ = asyncio.run(inspect_views.history(node.as_node))

    assert isinstance(events[0], EventsLost)
    assert events[0].count == node.trace.added - node.trace.kept > 0
