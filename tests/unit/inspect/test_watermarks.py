"""What `topic describe` shows of partitions beyond what Kafka's requests say."""

from __future__ import annotations

from typing import Any

import msgspec

from chronik.inspect.watermarks import monitor, offsets_row
from chronik.trace.events import FollowerSeen, PartitionSeen
from chronik.trace.inspections import StateView, Totals, Traces
from tests.unit.client.answering import answering
from tests.unit.client.looked_at import Nodes, free_address


def seen(node: int, partition: int, leader_epoch: int, *followers: FollowerSeen) -> PartitionSeen:
    return PartitionSeen(1, node, "orders", partition, leader_epoch, 10, 85, 90, 100, 100, (1, 2), 2, followers, 999)


def state(node: int, *partitions: PartitionSeen, is_current: bool = True) -> Any:
    totals = Totals(0, 0, 0, 0, 0, 0, 0, 0)
    look = StateView(node, 1, "9", True, Traces(False, ()), partitions, (), (), totals, is_current=is_current)
    return msgspec.json.decode(msgspec.json.encode(look))


def test_every_partition_is_told_by_its_leader() -> None:
    nodes = Nodes(
        {each: free_address() for each in (1, 2, 3)}, {1: state(1, seen(1, 0, 5)), 2: state(2, seen(2, 1, 5))}
    )
    with answering(nodes) as address:
        found = monitor([address], "orders")

    assert found is not None
    assert {number: each.node for number, each in found.partitions.items()} == {0: 1, 1: 2}
    assert list(found.silent) == [3]
    assert nodes.asked[0]["topics"] == ["orders"]


def test_of_two_that_believe_to_lead_the_newer_is_right() -> None:
    nodes = Nodes(
        {each: free_address() for each in (1, 2, 3)},
        {1: state(1, seen(1, 0, 5)), 2: state(2, seen(2, 0, 6)), 3: state(3, seen(3, 0, 4))},
    )
    with answering(nodes) as address:
        found = monitor([address], "orders")

    assert found is not None
    assert found.partitions[0].node == 2


def test_what_a_leader_says_that_is_cut_off_while_another_could_lead_is_not_believed() -> None:
    alone = {1: state(1, seen(1, 0, 5), is_current=False)}
    with answering(Nodes({each: free_address() for each in (1, 2)}, alone)) as address:
        found = monitor([address], "orders")

    assert found is not None
    assert (found.partitions, found.unsure) == ({}, (0,))


def test_what_a_leader_says_is_held_against_all_that_could_lead_instead() -> None:
    """What a leader says is believed where all that could lead instead say otherwise."""
    both = {1: state(1, seen(1, 0, 5), is_current=False), 2: state(2, is_current=False)}
    nodes = Nodes({each: free_address() for each in (1, 2)}, both)
    with answering(nodes) as address:
        found = monitor([address], "orders")

    assert found is not None
    assert (list(found.partitions), found.unsure) == ([0], ())
    assert all(asked["is_sure"] for asked in nodes.asked if asked["view"] == "state")


def test_where_there_is_another_kafka_there_is_nothing_to_tell() -> None:
    with answering(lambda request: b"") as address:
        assert monitor([address], "orders") is None
    assert monitor([free_address()], "orders") is None


def test_a_partition_has_its_offsets_its_gap_and_its_followers() -> None:
    late, unheard = FollowerSeen(2, True, 80, 20, 700, 3), FollowerSeen(3, False, -1, 90, -1, -1)

    row = offsets_row(seen(1, 0, 5, late, unheard))

    assert row == {
        "log_start_offset": 10,
        "last_stable_offset": 85,
        "high_watermark": 90,
        "next_offset": 100,
        "gap": 10,
        "followers": [
            {"node": 2, "in_sync": True, "safe_offset": 80, "lag_records": 20, "lag_ms": 700},
            {"node": 3, "in_sync": False, "safe_offset": None, "lag_records": 90, "lag_ms": None},
        ],
    }


def test_of_a_partition_whose_leader_is_silent_nothing_is_guessed() -> None:
    row = offsets_row(None)

    assert row.pop("followers") == []
    assert set(row.values()) == {None}
