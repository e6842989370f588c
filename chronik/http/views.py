"""Pure functions from a node's state to plain values: what the HTTP port shows.

They look and touch nothing. Offsets come from the replica itself, the same object that answers fetch and list-offsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from chronik import __version__
from chronik.core.machines.groups.classic_group import ClassicState
from chronik.core.machines.groups.describe import CLASSIC_TYPE, CONSUMER_TYPE
from chronik.core.replica.in_sync import UNKNOWN
from chronik.http.totals import behind, totals
from chronik.trace.reading import (
    ByLabels,
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
from chronik.wire.versions import EVERY_API

if TYPE_CHECKING:
    from chronik.core.quotas.client_quotas import ClientQuotas
    from chronik.core.replica.replica import Replica
    from chronik.node.net.connection import Connections
    from chronik.node.node import Node

PROBLEMS_SHOWN = 20

# Groups that are in none of these states count too; these are there even when no group is in them.
GROUP_STATES = [
    *((CLASSIC_TYPE, str(state)) for state in ClassicState),
    *((CONSUMER_TYPE, state) for state in ("Empty", "Assigning", "Reconciling", "Stable")),
]


class Health(NamedTuple):
    """Whether all is well, and what is not."""

    is_good: bool
    body: dict[str, object]


def health(node: Node) -> Health:
    """Good while everything this node holds can be served, and written to."""
    offline = sorted(node.replicas.partitions.offline().items())
    body: dict[str, object] = {
        "status": "ok",
        "node_id": node.config.node_id,
        "cluster_id": node.identity.cluster_id,
        "version": __version__,
    }
    problems: list[str] = []
    if node.replicas.shortage is not None:
        problems.append(f"{node.replicas.shortage}: batches are refused until there is more")
    if offline:
        problems += [
            f"{topic}-{partition} is offline: {reason}" for (topic, partition), reason in offline[:PROBLEMS_SHOWN]
        ]
        if len(offline) > PROBLEMS_SHOWN:
            problems.append(f"and {len(offline) - PROBLEMS_SHOWN} more partitions are offline")
    if problems:
        body["status"], body["problems"] = "failing", problems
    return Health(not problems, body)


def readiness(node: Node) -> Health:
    """Good while requests are taken."""
    return Health(node.is_ready, {"status": "ready" if node.is_ready else "not ready", "node_id": node.config.node_id})


def reading(node: Node) -> NodeReading:
    """All of the node's numbers, of one moment."""
    metrics, commits = node.metrics, node.replicas.sync_rounds
    held = [replica for replica in node.replicas.held() if replica.offline is None]
    served = [replica for replica in held if replica.log.end_offset > 0]
    monotonic_ms = node.trace.clock.monotonic_ms()
    places, worst = placement(node), totals(node, monotonic_ms)
    return NodeReading(
        builds={(__version__,): 1},
        nodes={(str(node.config.node_id), node.identity.cluster_id): 1},
        is_ready=node.is_ready,
        requests=RequestReading(
            begun={(EVERY_API[api_key].name,): count for api_key, count in metrics.requests.items()},
            refusals={
                (EVERY_API[api_key].name, code.name): count for (api_key, code), count in metrics.refusals.items()
            },
            faults=metrics.faults,
        ),
        traffic=TrafficReading(
            appended_batches=metrics.produced_batches,
            appended_bytes=metrics.bytes_in,
            duplicate_batches=metrics.duplicate_batches,
            fetched_bytes=metrics.bytes_out,
            throttled_bytes={(role,): count for role, count in metrics.throttled_bytes.items()},
            throttled_waits={(role,): count for role, count in metrics.throttled_waits.items()},
        ),
        connections=_connections(node.connections),
        quotas=_quotas(node.quotas),
        certificate_days=_certificate_days(node),
        commits=Timed(commits.rounds, commits.sync_seconds),
        waiting=WaitingReading(*node.waiting.counts()),
        fetch_sessions=len(node.sessions),
        groups=groups(node),
        producer_ids=sum(len(replica.log.producers) for replica in held),
        partitions=PartitionTotals(
            topics=len(node.image.topics),
            total=places.partitions,
            leaderless=places.leaderless,
            led=places.led,
            followed=places.followed,
            under_replicated=places.under_replicated,
            lagging=worst.lagging,
            gap_records_max=worst.gap_largest,
            lag_records_max=worst.lag_records_largest,
            lag_seconds_max=worst.lag_ms_largest / 1000,
        ),
        trace_events=node.trace.added,
        cluster=ClusterReading(
            live_nodes=sum(1 for _ in node.image.live_brokers()),
            is_controller=node.cluster.metadata.is_controller,
            quorum_epoch=node.cluster.quorum.epoch,
            metadata_offset=node.image.version,
        ),
        disk=DiskReading(*node.replicas.disk_bytes()),
        served=[partition(replica) for replica in served],
        followers=[each for replica in served for each in followers(replica, monotonic_ms)],
        offline=sorted(node.replicas.partitions.offline()),
    )


def _certificate_days(node: Node) -> dict[tuple[str, ...], float]:
    expires_s = node.metrics.certificate_expires_s
    if expires_s is None:
        return {}
    return {("ssl.keystore",): round((expires_s - node.trace.clock.now_ms() / 1000) / 86_400, 3)}


def _connections(connections: Connections) -> ConnectionReading:
    return ConnectionReading(
        open=len(connections.open),
        max=connections.quotas.open_max,
        accepted=connections.accepted_total,
        malformed=connections.malformed_total,
        of_nodes=connections.quotas.nodes_open,
        refused=connections.quotas.refused_total,
        delayed=connections.quotas.delayed_total,
        idle=connections.idle_total,
        given_up=connections.unfinished_total + connections.memory.given_up_total,
        waiting_for_memory=connections.memory.waiting,
        request_bytes=connections.memory.used_bytes,
        request_bytes_max=connections.memory.limit_bytes,
    )


def _quotas(quotas: ClientQuotas) -> QuotaReading:
    return QuotaReading(
        {(key.value,): count for key, count in quotas.throttled.items()},
        {(key.value,): ms / 1000 for key, ms in quotas.throttled_ms.items()},
        len(quotas),
    )


def partition(replica: Replica) -> PartitionReading:
    log = replica.log
    return PartitionReading(
        replica.topic,
        replica.partition,
        log.start_offset,
        replica.high_watermark,
        replica.last_stable_offset,
        log.end_offset,
        log.size_bytes(),
        len(replica.in_sync.in_sync) if replica.in_sync is not None else 0,
        int(replica.is_leader),
    )


def followers(replica: Replica, monotonic_ms: int) -> Iterator[FollowerReading]:
    in_sync = replica.in_sync
    if in_sync is None:
        return
    late = {seen.node: seen for seen in behind(replica, monotonic_ms)}
    for node_id in in_sync.followers:
        seen = late.get(node_id)
        if seen is None:
            yield FollowerReading(replica.topic, replica.partition, node_id, 0, 0.0)
        else:
            lag_seconds = math.nan if seen.lag_ms == UNKNOWN else seen.lag_ms / 1000
            yield FollowerReading(replica.topic, replica.partition, node_id, seen.lag_records, lag_seconds)


class Placement(NamedTuple):
    """The cluster's partitions, counted from where this node stands."""

    partitions: int = 0
    leaderless: int = 0
    led: int = 0
    followed: int = 0
    under_replicated: int = 0


def placement(node: Node) -> Placement:
    own_id = node.config.node_id
    placed = [partition for topic in node.image.topics.values() for partition in topic.partitions]
    led = [partition for partition in placed if partition.leader == own_id]
    return Placement(
        partitions=len(placed),
        leaderless=sum(not partition.has_leader for partition in placed),
        led=len(led),
        followed=sum(own_id in partition.replicas for partition in placed) - len(led),
        under_replicated=sum(len(partition.in_sync) < len(partition.replicas) for partition in led),
    )


def groups(node: Node) -> ByLabels:
    """How many groups there are of each type and state."""
    counts: dict[tuple[str, ...], int] = dict.fromkeys(GROUP_STATES, 0)
    for machine in node.groups.machines():
        for group in machine.list_groups():
            key = (group.type, group.state)
            counts[key] = counts.get(key, 0) + 1
    return counts
