"""The parts of a node that have its partitions, over a test's doors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from chronik.core.ports import Clock
from chronik.core.replica.replica import Replica
from chronik.node.observe.trace_store import is_sync_awaited
from chronik.node.replication.checkpoints import Checkpoints
from chronik.node.replication.hosted_partitions import HostedPartitions
from chronik.node.replication.partition_logs import PartitionLogs
from chronik.node.replication.partition_registry import NO_LISTENERS, PartitionRegistry, ReplicaListeners
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.replication.sync_rounds import SyncRounds
from chronik.trace.metrics import Metrics
from chronik.trace.observer import NOT_OBSERVED, Observation


def build_replicas(
    files: Any,
    checkpoints: Checkpoints,
    purgatory: Purgatory,
    clock: Clock,
    metrics: Metrics,
    *,
    node_id: int,
    is_synced: bool = True,
    listeners: ReplicaListeners = NO_LISTENERS,
    observation: Observation = NOT_OBSERVED,
    metadata_log_synced: Callable[[], None] = lambda: None,
) -> Replicas:
    """As `Node` puts them together."""
    hosted = HostedPartitions()
    logs = PartitionLogs(
        files,
        checkpoints,
        clock,
        hosted,
        node_id=node_id,
        is_synced=is_synced,
        data_dir="/data",
        metadata_log_synced=metadata_log_synced,
    )
    partitions = PartitionRegistry(
        hosted, logs, purgatory, clock, metrics, node_id=node_id, listeners=listeners, observation=observation
    )
    sync_rounds = SyncRounds(
        files, purgatory.moved, partitions.sync_failed, logs.store_recovery_points, is_awaited=is_sync_awaited
    )
    return Replicas(
        partitions, logs, sync_rounds, purgatory, files, clock, metrics, listeners=listeners, observation=observation
    )


class Subscribers:
    """What tests want to hear of replicas, also after these are there. A node's own are in node/node.py."""

    def __init__(self) -> None:
        self.role_changed: list[Callable[[Replica], None]] = []
        self.went_offline: list[Callable[[Replica], None]] = []
        self.removed: list[Callable[[Replica], None]] = []
        self.follower_progressed: list[Callable[[Replica], None]] = []
        self.start_moved: list[Callable[[Replica], None]] = []

    @property
    def listeners(self) -> ReplicaListeners:
        return ReplicaListeners(
            partial(_call, self.role_changed),
            partial(_call, self.went_offline),
            partial(_call, self.removed),
            partial(_call, self.follower_progressed),
            partial(_call, self.start_moved),
        )


def _call(functions: list[Callable[[Replica], None]], replica: Replica) -> None:
    for function in functions:
        function(replica)
