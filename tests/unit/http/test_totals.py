"""A node's partitions summed up."""

from __future__ import annotations

from chronik.core.machines.metadata.records import PartitionRecord, TopicRecord
from chronik.core.replica.replica import Replica
from chronik.http.totals import LAGGING_MS, behind, is_lagging, totals
from chronik.trace.events import FollowerSeen
from chronik.trace.inspections import Totals
from tests.unit.http.fake_node import FakeNode

NOW_MS = 10_000


def fetched(replica: Replica, follower: int, offset: int, at_ms: int) -> None:
    assert replica.in_sync is not None
    replica.in_sync.fetched(follower, offset, replica.log.end_offset, at_ms)


def test_a_node_with_nothing_has_no_lag() -> None:
    assert totals(FakeNode().as_node, NOW_MS) == Totals(0, 0, 0, 0, 0, 0, 0, 0)


def test_the_worst_of_all_partitions_counts() -> None:
    node = FakeNode()
    fetched(node.replicas.add("orders", 0, watermark=90, end=100), 2, 100, NOW_MS)
    late = node.replicas.add("orders", 1, watermark=10, end=40)
    fetched(late, 2, 40, NOW_MS - 3_000)
    late.log.end_offset = 65
    node.replicas.add("bills", 0, end=5).take_offline("disk")
    node.replicas.add("bills", 1, end=5).follow(leader_id=2, leader_epoch=1, partition_epoch=1)

    found = totals(node.as_node, NOW_MS)

    assert found == Totals(
        led=2,
        followed=1,
        offline=1,
        under_replicated=0,
        lagging=1,
        gap_largest=55,
        lag_records_largest=25,
        lag_ms_largest=3_000,
    )


def test_a_partition_with_fewer_in_sync_than_it_has_replicas_is_counted() -> None:
    node = FakeNode()
    replica = node.replicas.add("orders", 0)
    assert replica.in_sync is not None
    replica.in_sync.decided((1,), 1)

    assert totals(node.as_node, NOW_MS).under_replicated == 1


def test_partitions_that_nobody_has_asked_for_yet_are_counted() -> None:
    node = FakeNode()
    node.image.apply(TopicRecord("orders", bytes(16)))
    for number, (leader, in_sync) in enumerate([(7, (7, 8)), (7, (7,)), (8, (8,)), (-1, ())]):
        node.image.apply(PartitionRecord(number, bytes(16), (7, 8), in_sync, (), (), leader, 0, 0))
    assert (totals(node.as_node, NOW_MS).led, totals(node.as_node, NOW_MS).under_replicated) == (2, 1)

    node.replicas.add("orders", 0)
    node.replicas.failed["orders", 1] = "disk"

    found = totals(node.as_node, NOW_MS)
    assert (found.led, found.offline, found.under_replicated) == (1, 1, 0)


def test_a_follower_that_is_a_fetch_behind_does_not_lag() -> None:
    def seen(lag_records: int, lag_ms: int) -> FollowerSeen:
        return FollowerSeen(2, True, 0, lag_records, lag_ms, 0)

    assert not is_lagging(seen(0, 0))
    assert not is_lagging(seen(10, LAGGING_MS - 1))
    assert is_lagging(seen(10, LAGGING_MS))
    assert is_lagging(seen(10, -1))  # it never had everything since this node leads


def test_only_the_leader_knows_who_is_behind() -> None:
    node = FakeNode()
    replica = node.replicas.add("orders", 0, end=5)
    assert [(each.node, each.lag_records, each.lag_ms) for each in behind(replica, NOW_MS)] == [(2, 5, NOW_MS)]

    fetched(replica, 2, 5, NOW_MS)
    assert behind(replica, NOW_MS) == []

    replica.follow(leader_id=2, leader_epoch=1, partition_epoch=1)
    assert behind(replica, NOW_MS) == []
