"""What is shown of a node, from its state."""

from __future__ import annotations

import math
import time

from chronik.core.errors import Code
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.metadata.brokers import register_broker
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.records import PartitionRecord, TopicRecord
from chronik.core.machines.metadata.sessions import (
    BalanceLookedAt,
    BrokerSeen,
    BrokerSessions,
    ControllerConfig,
    TokensLookedAt,
)
from chronik.http import views
from chronik.trace.reading import PartitionReading
from chronik.wire.versions import FETCH, PRODUCE
from tests.unit.http.fake_node import CLUSTER_ID, FakeNode


def test_a_node_that_serves_everything_is_healthy() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, end=5)

    health = views.health(node.as_node)

    assert health.is_good
    assert health.body["status"] == "ok"
    assert health.body["node_id"] == 7
    assert health.body["cluster_id"] == CLUSTER_ID
    assert "problems" not in health.body


def test_a_full_disk_makes_the_node_unhealthy() -> None:
    node = FakeNode()
    node.replicas.shortage = "the disk is full"

    health = views.health(node.as_node)

    assert not health.is_good
    assert health.body["status"] == "failing"
    assert "disk is full" in str(health.body["problems"])


def test_an_offline_replica_makes_the_node_unhealthy_and_is_named_with_its_reason() -> None:
    node = FakeNode()
    node.replicas.add("orders", 3, end=5).take_offline("write failed: no such device")
    node.replicas.failed["bills", 0] = "bad magic at 17"

    health = views.health(node.as_node)

    assert not health.is_good
    assert health.body["status"] == "failing"
    assert health.body["problems"] == [
        "bills-0 is offline: bad magic at 17",
        "orders-3 is offline: write failed: no such device",
    ]


def test_the_list_of_problems_is_bounded() -> None:
    node = FakeNode()
    for partition in range(100):
        node.replicas.failed["orders", partition] = "gone"

    problems = views.health(node.as_node).body["problems"]

    assert isinstance(problems, list)
    assert len(problems) == views.PROBLEMS_SHOWN + 1
    assert problems[-1] == "and 80 more partitions are offline"


def test_readiness_is_the_nodes_own_word() -> None:
    node = FakeNode()

    assert views.readiness(node.as_node).is_good

    node.is_ready = False

    assert not views.readiness(node.as_node).is_good
    assert views.readiness(node.as_node).body["status"] == "not ready"


def test_a_partitions_offsets_are_those_of_its_replica() -> None:
    node = FakeNode()
    replica = node.replicas.add("orders", 2, start=10, watermark=40, end=55, size=1234)

    before = views.reading(node.as_node).served
    replica.own_safe(50)
    replica.follower_fetched(2, 50, 0)
    after = views.reading(node.as_node).served

    assert before == [PartitionReading("orders", 2, 10, 40, 40, 55, 1234, 2, 1)]
    assert after == [PartitionReading("orders", 2, 10, 50, 50, 55, 1234, 2, 1)]


def test_partitions_that_were_never_written_to_have_no_series() -> None:
    node = FakeNode()
    node.replicas.add("empty", 0)
    node.replicas.add("emptied", 0, start=5, watermark=5, end=5)

    reading = views.reading(node.as_node)

    assert [partition.topic for partition in reading.served] == ["emptied"]


def test_an_offline_partition_is_listed_apart_from_those_that_are_served() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, end=5)
    node.replicas.add("orders", 1, end=5).take_offline("sync failed")
    node.replicas.failed["orders", 2] = "could not be opened"

    reading = views.reading(node.as_node)

    assert [partition.partition for partition in reading.served] == [0]
    assert reading.offline == [("orders", 1), ("orders", 2)]
    assert reading.offline_count == 2


def test_counts_carry_the_names_of_requests_and_codes() -> None:
    node = FakeNode()
    node.metrics.requests[PRODUCE] += 3
    node.metrics.refused(FETCH, Code.OFFSET_OUT_OF_RANGE)
    node.metrics.refused(FETCH, Code.OFFSET_OUT_OF_RANGE)

    reading = views.reading(node.as_node)

    assert reading.requests.begun["produce",] == 3
    assert reading.requests.begun["fetch",] == 0
    assert reading.requests.refusals == {("fetch", "OFFSET_OUT_OF_RANGE"): 2}


def test_the_rest_of_the_reading_comes_from_where_it_is_kept() -> None:
    node = FakeNode()
    node.metrics.produced_batches, node.metrics.bytes_in, node.metrics.bytes_out = 4, 400, 300
    node.metrics.duplicate_batches, node.metrics.faults = 2, 1
    node.connections.open.update({1: None, 2: None})
    node.connections.accepted_total, node.connections.malformed_total = 9, 3
    node.replicas.sync_rounds.rounds, node.replicas.sync_rounds.sync_seconds = 6, 0.5
    node.replicas.add("orders", 0, end=1, producers=2)
    node.replicas.add("orders", 1, end=1, producers=3)
    node.waiting_now = (11, 12)
    node.sessions.create(1, now_ms=0)

    reading = views.reading(node.as_node)

    assert (reading.traffic.appended_batches, reading.traffic.appended_bytes, reading.traffic.fetched_bytes) == (
        4,
        400,
        300,
    )
    assert (reading.traffic.duplicate_batches, reading.requests.faults) == (2, 1)
    assert (reading.connections.open, reading.connections.max) == (2, 100)
    assert (reading.connections.accepted, reading.connections.malformed) == (9, 3)
    assert (reading.connections.of_nodes, reading.connections.refused) == (2, 4)
    assert (reading.connections.idle, reading.connections.given_up) == (9, 18)
    assert (
        reading.connections.request_bytes,
        reading.connections.request_bytes_max,
        reading.connections.waiting_for_memory,
    ) == (5, 6, 7)
    assert reading.commits == (6, 0.5)
    assert reading.producer_ids == 5
    assert (reading.waiting.producers, reading.waiting.fetches) == (11, 12)
    assert reading.fetch_sessions == 1
    assert (reading.disk.size_bytes, reading.disk.free_bytes) == (1000, 400)
    assert reading.is_ready


def test_a_node_knows_its_place_in_the_cluster() -> None:
    node = FakeNode()
    node.cluster.metadata.is_controller, node.cluster.quorum.epoch = True, 3
    for broker_id in (7, 8):
        facts, _ = register_broker(
            node.image, BrokerSessions(), ControllerConfig(own_id=7), RegisterBroker(broker_id, bytes(16), "h", 1), 0
        )
        for fact in facts:
            if not isinstance(fact, BrokerSeen | BalanceLookedAt | TokensLookedAt):
                node.image.apply(fact)
    node.image.apply(TopicRecord("orders", bytes(16)))
    for number, (leader, in_sync) in enumerate([(7, (7, 8)), (7, (7,)), (8, (8,)), (-1, ())]):
        node.image.apply(PartitionRecord(number, bytes(16), (7, 8), in_sync, (), (), leader, 0, 0))

    reading = views.reading(node.as_node)

    assert (reading.partitions.total, reading.partitions.leaderless) == (4, 1)
    assert (reading.partitions.led, reading.partitions.followed, reading.partitions.under_replicated) == (2, 2, 1)
    assert (reading.cluster.live_nodes, reading.cluster.is_controller, reading.cluster.quorum_epoch) == (2, True, 3)
    assert reading.cluster.metadata_offset == node.image.version > 0


def test_groups_are_counted_by_type_and_state_and_states_without_groups_are_zero() -> None:
    node = FakeNode()
    node.machines[0].groups.update({"a": ClassicGroup("a"), "b": ClassicGroup("b"), "c": ConsumerGroup("c")})

    counts = views.groups(node.as_node)

    assert counts["classic", "Empty"] == 2
    assert counts["consumer", "Empty"] == 1
    assert counts["classic", "Stable"] == 0
    assert counts["consumer", "Reconciling"] == 0
    assert sum(counts.values()) == 3


def test_a_follower_is_read_with_its_lag_in_records_and_seconds() -> None:
    node = FakeNode()
    replica = node.replicas.add("orders", 0, watermark=40, end=55)
    assert replica.in_sync is not None
    replica.in_sync.followers[2].caught_up_ms = node.clock.monotonic_ms() - 2_500
    replica.in_sync.followers[2].durable_end_offset = 50
    node.replicas.add("orders", 1, watermark=40, end=40).in_sync.followers[2].durable_end_offset = 40  # type: ignore[union-attr]
    never = node.replicas.add("orders", 2, end=7)
    assert never.in_sync is not None
    never.in_sync.followers[2].caught_up_ms = -1
    node.replicas.add("orders", 3, end=7).follow(leader_id=9, leader_epoch=1, partition_epoch=1)

    reading = views.reading(node.as_node)

    assert [tuple(each)[1:4] for each in reading.followers] == [(0, 2, 5), (1, 2, 0), (2, 2, 7)]
    assert [each.lag_seconds for each in reading.followers][:2] == [2.5, 0.0]
    assert math.isnan(reading.followers[2].lag_seconds)
    assert (reading.partitions.lagging, reading.partitions.gap_records_max, reading.partitions.lag_records_max) == (
        2,
        15,
        7,
    )
    assert reading.partitions.lag_seconds_max == 2.5


def test_reading_10_000_partitions_holds_up_the_event_loop_for_a_short_time_only() -> None:
    node = FakeNode()
    for topic in range(100):
        for partition in range(100):
            node.replicas.add(f"topic-{topic}", partition, watermark=10, end=10)

    took_s = []
    for _ in range(5):  # the best of them: the machine may have ten other things to do
        began = time.thread_time()
        reading = views.reading(node.as_node)
        took_s.append(time.thread_time() - began)

    assert len(reading.served) == 10_000
    assert min(took_s) < 0.8  # it is 0.02 to 0.07
