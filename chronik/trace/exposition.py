"""A node's numbers as Prometheus wants them. The names are a contract (docs/metrics.md): dashboards use them.

prometheus_client writes everything but the series of partitions: for 10,000 of them it takes half a second, which the
node has better uses for. Those lines are written here, in the same format, at a twentieth of the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from chronik.trace.reading import NodeReading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE, SUMMARY = "counter", "gauge", "summary"


class Family(NamedTuple):
    """One metric of the node: what it is called, what it means, and which field of NodeReading it shows."""

    name: str
    kind: str
    field: str
    documentation: str
    labels: tuple[str, ...] = ()


def _counter(name: str, field: str, documentation: str, *labels: str) -> Family:
    return Family(name, COUNTER, field, documentation, labels)


def _gauge(name: str, field: str, documentation: str, *labels: str) -> Family:
    return Family(name, GAUGE, field, documentation, labels)


FAMILIES = (
    _gauge("chronik_build_info", "builds", "Always 1; the label has the version.", "version"),
    _gauge("chronik_node_info", "nodes", "Always 1; the labels say who this is.", "node_id", "cluster_id"),
    _gauge("chronik_ready", "is_ready", "1 while the node takes requests, as /ready has it."),
    _counter("chronik_requests_total", "requests.begun", "Requests begun, by API.", "api"),
    _counter(
        "chronik_refusals_total",
        "requests.refusals",
        "Requests, and single partitions of produce and fetch, answered with this Kafka error code.",
        "api",
        "code",
    ),
    _counter(
        "chronik_faults_total",
        "requests.faults",
        "Requests that met a bug (UNKNOWN_SERVER_ERROR): any is one too many.",
    ),
    _counter("chronik_appended_batches_total", "traffic.appended_batches", "Record batches appended to logs."),
    _counter("chronik_appended_bytes_total", "traffic.appended_bytes", "Bytes of those batches."),
    _counter(
        "chronik_duplicate_batches_total",
        "traffic.duplicate_batches",
        "Batches of idempotent producers that were in the log already: answered, not appended.",
    ),
    _counter("chronik_fetched_bytes_total", "traffic.fetched_bytes", "Bytes of record batches given to consumers."),
    _counter(
        "chronik_throttled_bytes_total",
        "traffic.throttled_bytes",
        "Bytes of throttled replicas that this node gave as a leader, or fetched as a follower.",
        "role",
    ),
    _counter(
        "chronik_throttled_waits_total",
        "traffic.throttled_waits",
        "Times that a throttled replica was held back because its throttle's rate was exceeded.",
        "role",
    ),
    _gauge(
        "chronik_certificate_expiry_days",
        "certificate_days",
        "Days until this node's own certificate expires; negative when it has. Without TLS there is no such line.",
        "store",
    ),
    _gauge("chronik_connections", "connections.open", "Client connections open now."),
    _gauge(
        "chronik_connections_max",
        "connections.max",
        "As many may be open: max.connections, or what the process has file descriptors for.",
    ),
    _counter("chronik_connections_accepted_total", "connections.accepted", "Client connections ever accepted."),
    _counter(
        "chronik_connections_malformed_total",
        "connections.malformed",
        "Connections ended because what came was no Kafka request.",
    ),
    _gauge("chronik_connections_of_nodes", "connections.of_nodes", "Of those open now, connections of other nodes."),
    _counter(
        "chronik_connections_refused_total",
        "connections.refused",
        "Connections turned away: over max.connections, max.connections.per.ip or the file descriptors, or opened"
        " faster than a quota of their address allows.",
    ),
    _counter(
        "chronik_connections_delayed_total",
        "connections.delayed",
        "Connections that were not served at once, as more came than max.connection.creation.rate allows.",
    ),
    _counter("chronik_quota_throttled_total", "quotas.waits", "Answers that made a client over a quota wait.", "quota"),
    _counter(
        "chronik_quota_throttled_seconds_total",
        "quotas.wait_seconds",
        "For how long those clients were made to wait.",
        "quota",
    ),
    _gauge("chronik_quota_clients", "quotas.clients", "Rates of clients that are measured, for quotas that are set."),
    _counter(
        "chronik_connections_idle_total",
        "connections.idle",
        "Connections closed because nothing came or went for connections.max.idle.ms.",
    ),
    _counter(
        "chronik_connections_given_up_total",
        "connections.given_up",
        "Connections closed because a request did not become whole in time, or held memory that others waited for.",
    ),
    _gauge(
        "chronik_request_bytes", "connections.request_bytes", "Memory of clients' requests that are not answered yet."
    ),
    _gauge(
        "chronik_request_limit_bytes",
        "connections.request_bytes_max",
        "As much as that may be (queued.max.request.bytes).",
    ),
    _gauge(
        "chronik_connections_waiting_for_memory",
        "connections.waiting_for_memory",
        "Connections that are not read from until requests of others have been answered.",
    ),
    Family(
        "chronik_group_commit_seconds",
        SUMMARY,
        "commits",
        "Rounds of syncing to disk (_count) and the time they took (_sum).",
    ),
    _gauge("chronik_waiting_producers", "waiting.producers", "Batches whose answer waits until they are safe."),
    _gauge("chronik_waiting_fetches", "waiting.fetches", "Fetches that wait for something to read."),
    _gauge("chronik_fetch_sessions", "fetch_sessions", "Incremental fetch sessions kept."),
    _gauge("chronik_groups", "groups", "Groups coordinated here, by type and state.", "type", "state"),
    _gauge("chronik_producer_ids", "producer_ids", "Idempotent producers remembered, summed over partitions."),
    _gauge("chronik_topics", "partitions.topics", "Topics in the cluster, internal ones included."),
    _gauge("chronik_partitions", "partitions.total", "Partitions in the cluster, with data or not."),
    _gauge("chronik_partitions_leaderless", "partitions.leaderless", "Partitions in the cluster that no node leads."),
    _gauge("chronik_partitions_led", "partitions.led", "Partitions that this node leads."),
    _gauge("chronik_partitions_followed", "partitions.followed", "Partitions of which this node has a further copy."),
    _gauge(
        "chronik_partitions_under_replicated",
        "partitions.under_replicated",
        "Partitions led here of which not all replicas are in sync.",
    ),
    _gauge(
        "chronik_partitions_lagging",
        "partitions.lagging",
        "Partitions led here of which a follower has not had everything for two seconds or more.",
    ),
    _gauge(
        "chronik_partition_gap_records_max",
        "partitions.gap_records_max",
        "The largest gap of a partition led here: records appended and not below the watermark yet.",
    ),
    _gauge(
        "chronik_follower_lag_records_max",
        "partitions.lag_records_max",
        "The largest lag of a follower of what is led here.",
    ),
    _gauge(
        "chronik_follower_lag_seconds_max",
        "partitions.lag_seconds_max",
        "For how long, at most, one has not had everything.",
    ),
    _counter("chronik_trace_events_total", "trace_events", "Events traced, stored or not."),
    _gauge("chronik_live_nodes", "cluster.live_nodes", "Nodes of the cluster that take part, as this one knows."),
    _gauge("chronik_controller", "cluster.is_controller", "1 on the node that is the controller."),
    _gauge("chronik_quorum_epoch", "cluster.quorum_epoch", "How often the quorum has elected, or tried to."),
    _gauge("chronik_metadata_offset", "cluster.metadata_offset", "Up to where this node has followed the metadata."),
    _gauge("chronik_partitions_offline", "offline_count", "Partitions that this node cannot serve; see /health."),
    _gauge("chronik_disk_size_bytes", "disk.size_bytes", "Size of the disk below the data directory."),
    _gauge("chronik_disk_free_bytes", "disk.free_bytes", "Free bytes on that disk."),
)


class PartitionFamily(NamedTuple):
    """A gauge with the labels `topic` and `partition`, and the field of PartitionReading that it shows."""

    name: str
    documentation: str
    field: str


PARTITION_FAMILIES = (
    PartitionFamily("chronik_partition_log_start_offset", "The first offset that can be read.", "log_start_offset"),
    PartitionFamily("chronik_partition_high_watermark", "Consumers read below this offset.", "high_watermark"),
    PartitionFamily(
        "chronik_partition_last_stable_offset",
        "Consumers with read_committed read below this offset.",
        "last_stable_offset",
    ),
    PartitionFamily("chronik_partition_next_offset", "The offset the next record will have (log end).", "next_offset"),
    PartitionFamily(
        "chronik_partition_gap_records", "Records appended that are not below the watermark yet.", "gap_records"
    ),
    PartitionFamily("chronik_partition_size_bytes", "Bytes of the partition's log segments on disk.", "size_bytes"),
    PartitionFamily(
        "chronik_partition_in_sync_replicas",
        "Replicas that are in sync; 0 where another node leads.",
        "in_sync_replicas",
    ),
    PartitionFamily(
        "chronik_partition_leader", "1 where this node leads the partition, 0 where it follows.", "is_leader"
    ),
)
# With one more label, `follower`: its node id. Reported by the leader alone.
FOLLOWER_FAMILIES = (
    PartitionFamily(
        "chronik_partition_follower_lag_records", "Records that the follower does not have yet.", "lag_records"
    ),
    PartitionFamily(
        "chronik_partition_follower_lag_seconds",
        "For how long the follower has not had everything; NaN if it never had since this node leads.",
        "lag_seconds",
    ),
)
OFFLINE = PartitionFamily(
    "chronik_partition_offline", "1 for a partition that cannot be served, 0 for one that is.", ""
)


def render(reading: NodeReading) -> bytes:
    """All metrics in Prometheus' text format. Needs nothing but the reading, so it may run on any thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(reading))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry) + "".join(_partition_lines(reading)).encode()


class NodeCollector(Collector):
    """Gives prometheus_client one reading."""

    def __init__(self, reading: NodeReading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            yield _metric(family, attrgetter(family.field)(self._reading))


def _metric(family: Family, value: Any) -> Metric:
    if family.kind == SUMMARY:
        return SummaryMetricFamily(family.name, family.documentation, count_value=value.times, sum_value=value.seconds)
    make = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
    metric = make(family.name, family.documentation, labels=family.labels)
    for labels, number in value.items() if family.labels else [((), value)]:
        metric.add_metric(labels, number)
    return metric


def _partition_lines(reading: NodeReading) -> Iterator[str]:
    served = [_labels(partition.topic, partition.partition) for partition in reading.served]
    for family in PARTITION_FAMILIES:
        yield from _family_lines(family, served, map(attrgetter(family.field), reading.served))
    followers = [_follower_labels(*each[:3]) for each in reading.followers]
    for family in FOLLOWER_FAMILIES:
        yield from _family_lines(family, followers, map(attrgetter(family.field), reading.followers))
    offline = [_labels(topic, partition) for topic, partition in reading.offline]
    states = [0] * len(served) + [1] * len(offline)
    yield from _family_lines(OFFLINE, served + offline, states)


def _family_lines(family: PartitionFamily, labels: Iterable[str], values: Iterable[object]) -> Iterator[str]:
    yield f"# HELP {family.name} {family.documentation}\n# TYPE {family.name} gauge\n"
    for label, value in zip(labels, values, strict=True):
        yield f"{family.name}{label} {value}\n"


def _labels(topic: str, partition: int) -> str:
    return f'{{topic="{_escaped(topic)}",partition="{partition}"}}'


def _follower_labels(topic: str, partition: int, follower: int) -> str:
    return f'{{topic="{_escaped(topic)}",partition="{partition}",follower="{follower}"}}'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
