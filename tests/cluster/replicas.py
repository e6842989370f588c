"""The copies of a partition on the disks of a cluster, read without its nodes: they must be the same, byte for byte."""

from __future__ import annotations

from pathlib import Path

from chronik.core.records.payload import walk
from chronik.testing import RunningCluster
from tests.cluster.support import wait_until


def log_on_disk(data_dir: str, topic: str, partition: int) -> bytes:
    """All segments of a partition, one after the other."""
    return b"".join(path.read_bytes() for path in sorted(Path(data_dir, f"{topic}-{partition}").glob("*.log")))


def wait_until_replicas_agree(cluster: RunningCluster, topic: str, partitions: int) -> None:
    """When nobody produces any more, every node has the same log of each partition: nothing diverged."""
    for partition in range(partitions):
        wait_until(lambda: _agree(cluster, topic, partition), lambda: _differences(cluster, topic, partition))  # noqa: B023


def _agree(cluster: RunningCluster, topic: str, partition: int) -> bool:
    logs = [log_on_disk(node.data_dir, topic, partition) for node in cluster.nodes.values()]
    return all(log == logs[0] for log in logs)


def _differences(cluster: RunningCluster, topic: str, partition: int) -> str:
    """Where the copies part, in words."""
    lines, values = [f"the replicas of {topic}-{partition} differ"], {}
    for node_id, node in cluster.nodes.items():
        records = walk(log_on_disk(node.data_dir, topic, partition))
        found = values[node_id] = {record.offset: bytes(record.value or b"") for record in records}
        lines.append(f"node {node_id} has {len(found)} records up to {max(found, default=-1)}")
    for offset in sorted({offset for found in values.values() for offset in found}):
        there = {node_id: found.get(offset) for node_id, found in values.items()}
        if len(set(there.values())) > 1:
            lines.append(f"first difference at offset {offset}: {there}")
            break
    return "\n".join(lines)
