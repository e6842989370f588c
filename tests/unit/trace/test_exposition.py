"""Readings as Prometheus' text, read back with prometheus_client's own parser."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from chronik.trace.exposition import FAMILIES, OFFLINE, PARTITION_FAMILIES, SUMMARY, render
from chronik.trace.reading import (
    ClusterReading,
    ConnectionReading,
    DiskReading,
    FollowerReading,
    NodeReading,
    PartitionReading,
    PartitionTotals,
    QuotaReading,
    RequestReading,
    Timed,
    TrafficReading,
    WaitingReading,
)

NOTHING = NodeReading(
    builds={("1.2.3",): 1},
    nodes={("7", "cluster"): 1},
    is_ready=True,
    requests=RequestReading(begun={("produce",): 0}, refusals={}, faults=0),
    traffic=TrafficReading(
        appended_batches=0,
        appended_bytes=0,
        duplicate_batches=0,
        fetched_bytes=0,
        throttled_bytes={("leader",): 0, ("follower",): 0},
        throttled_waits={("leader",): 0, ("follower",): 0},
    ),
    connections=ConnectionReading(
        open=0,
        max=0,
        accepted=0,
        malformed=0,
        of_nodes=0,
        refused=0,
        delayed=0,
        idle=0,
        given_up=0,
        waiting_for_memory=0,
        request_bytes=0,
        request_bytes_max=0,
    ),
    quotas=QuotaReading({("producer_byte_rate",): 3}, {("producer_byte_rate",): 1.5}, clients=0),
    certificate_days={("ssl.keystore",): 1.5},
    commits=Timed(0, 0.0),
    waiting=WaitingReading(producers=0, fetches=0),
    fetch_sessions=0,
    groups={},
    producer_ids=0,
    partitions=PartitionTotals(
        topics=0,
        total=0,
        leaderless=0,
        led=0,
        followed=0,
        under_replicated=0,
        lagging=0,
        gap_records_max=0,
        lag_records_max=0,
        lag_seconds_max=0.0,
    ),
    trace_events=0,
    cluster=ClusterReading(live_nodes=0, is_controller=False, quorum_epoch=0, metadata_offset=0),
    disk=DiskReading(size_bytes=0, free_bytes=0),
    served=[],
    followers=[],
    offline=[],
)


def reading(**changes: Any) -> NodeReading:
    return dataclasses.replace(NOTHING, **changes)


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(text.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_every_metric_that_is_documented_is_in_the_text_once_with_its_type() -> None:
    lines = render(reading()).decode().splitlines()

    for family in FAMILIES:
        assert lines.count(f"# TYPE {family.name} {family.kind}") == 1
        assert lines.count(f"# HELP {family.name} {family.documentation}") == 1
    for partition_family in (*PARTITION_FAMILIES, OFFLINE):
        assert lines.count(f"# TYPE {partition_family.name} gauge") == 1


def test_names_say_their_unit_last_and_counters_end_in_total() -> None:
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert ("bytes" in family.name) == family.name.removesuffix("_total").endswith("_bytes")
        assert family.kind != SUMMARY or family.name.endswith("_seconds")


def test_a_metric_shows_the_field_it_names() -> None:
    text = render(
        reading(
            requests=RequestReading(
                {("produce",): 5, ("fetch",): 6}, {("produce", "NOT_LEADER_OR_FOLLOWER"): 198}, faults=0
            ),
            commits=Timed(3, 0.25),
            groups={("classic", "Stable"): 2},
            offline=[("orders", 1)],
        )
    )

    found = samples(text)

    assert found["chronik_requests_total", (("api", "produce"),)] == 5
    assert found["chronik_requests_total", (("api", "fetch"),)] == 6
    assert found["chronik_refusals_total", (("api", "produce"), ("code", "NOT_LEADER_OR_FOLLOWER"))] == 198
    assert found["chronik_group_commit_seconds_count", ()] == 3
    assert found["chronik_group_commit_seconds_sum", ()] == 0.25
    assert found["chronik_groups", (("state", "Stable"), ("type", "classic"))] == 2
    assert found["chronik_partitions_offline", ()] == 1
    assert found["chronik_ready", ()] == 1
    assert found["chronik_build_info", (("version", "1.2.3"),)] == 1


def test_a_follower_has_its_lag_under_its_number() -> None:
    followers = [FollowerReading('a "b"', 1, 3, 25, 1.5), FollowerReading("orders", 1, 2, 7, math.nan)]

    found = samples(render(reading(followers=followers)))

    late = (("follower", "3"), ("partition", "1"), ("topic", 'a "b"'))
    never = (("follower", "2"), ("partition", "1"), ("topic", "orders"))
    assert found["chronik_partition_follower_lag_records", late] == 25
    assert found["chronik_partition_follower_lag_seconds", late] == 1.5
    assert found["chronik_partition_follower_lag_records", never] == 7
    assert math.isnan(found["chronik_partition_follower_lag_seconds", never])


def test_a_served_partition_has_all_its_series_and_an_offline_one_only_that_it_is() -> None:
    served = PartitionReading("orders", 2, 10, 40, 39, 55, 1234, 3, 1)

    found = samples(render(reading(served=[served], offline=[("bills", 0)])))

    orders, bills = (("partition", "2"), ("topic", "orders")), (("partition", "0"), ("topic", "bills"))
    of_orders = {name: value for (name, labels), value in found.items() if labels == orders}
    of_bills = {name: value for (name, labels), value in found.items() if labels == bills}
    assert of_orders == {
        "chronik_partition_log_start_offset": 10,
        "chronik_partition_high_watermark": 40,
        "chronik_partition_last_stable_offset": 39,
        "chronik_partition_next_offset": 55,
        "chronik_partition_gap_records": 15,
        "chronik_partition_size_bytes": 1234,
        "chronik_partition_in_sync_replicas": 3,
        "chronik_partition_leader": 1,
        "chronik_partition_offline": 0,
    }
    assert of_bills == {"chronik_partition_offline": 1}


def test_the_process_is_there_too() -> None:
    names = {name for name, _ in samples(render(reading()))}

    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "python_info"} <= names


def test_partition_lines_say_what_prometheus_client_would_have_said() -> None:
    awkward = ["orders", 'quo"te', "back\\slash", "new\nline", "größe"]
    served = [PartitionReading(topic, 0, 0, 2**40 + place, 0, 0, 0, 0, 1) for place, topic in enumerate(awkward)]

    class Peer(Collector):
        def collect(self) -> list[Metric]:
            family = GaugeMetricFamily("chronik_partition_high_watermark", "x", labels=("topic", "partition"))
            for partition in served:
                family.add_metric((partition.topic, str(partition.partition)), partition.high_watermark)
            return [family]

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Peer())
    ours = {
        key: value
        for key, value in samples(render(reading(served=served))).items()
        if key[0] == "chronik_partition_high_watermark"
    }

    assert ours == samples(generate_latest(registry))
    assert len(ours) == len(awkward)


def test_10_000_partitions_are_written_in_less_than_a_fifth_of_a_second() -> None:
    served = [PartitionReading(f"topic-{i // 100}", i % 100, 0, i, i, i, 1000 * i, 3, 1) for i in range(10_000)]

    began = time.thread_time()  # of this thread alone: the machine may have other things to do
    text = render(reading(served=served))
    took_s = time.thread_time() - began

    assert text.count(b"\nchronik_partition_next_offset{") == 10_000
    assert took_s < 0.2
