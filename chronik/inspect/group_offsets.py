"""Where a group is and where it would be moved to: what `chronik group` and the console show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronik.client.admin import ClusterAdmin, Partition
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.words import counted

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription


@dataclass(frozen=True)
class Target:
    """Where to: exactly one of the five is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_offset: int | None = None
    to_time_ms: int | None = None
    shift_by: int | None = None


@dataclass(frozen=True)
class Spot:
    """Where one partition stands: committed, both ends of its log, and the offset at the time asked for."""

    partition: Partition
    before: int | None
    start: int | None
    end: int | None
    at_time: int | None = None


@dataclass(frozen=True)
class Move:
    """One partition's offset before and after; `note` says why it is not the one asked for."""

    partition: Partition
    before: int | None
    after: int
    note: str = ""


def described_or_none(cluster: ClusterAdmin, name: str) -> ConsumerGroupDescription | None:
    """The group, None when there is none: nodes say that in two ways, by an error or by describing a dead group."""
    from confluent_kafka import ConsumerGroupState, KafkaError

    try:
        group = cluster.group(name)
    except RefusedByNode as refused:
        if refused.code == KafkaError.GROUP_ID_NOT_FOUND:
            return None
        raise
    return None if group.state == ConsumerGroupState.DEAD else group


def refuse_live_members(group: ConsumerGroupDescription, what: str) -> None:
    if group.members:
        who = ", ".join(f"{member.client_id} at {member.host.lstrip('/')}" for member in group.members)
        raise ChronikError(
            f"group {group.group_id} has {counted(len(group.members), 'live member')} ({who}) and cannot be {what}",
            "stop them first",
        )


def plan(target: Target, spot: Spot) -> Move:
    """Where one partition goes, held to what its log has: an offset out of range would send readers elsewhere."""
    topic, number = spot.partition
    if spot.start is None or spot.end is None:
        raise ChronikError(f"{topic}:{number} has no leader that tells its offsets", "try again later")
    if target.shift_by is not None and spot.before is None:
        raise ChronikError(f"{topic}:{number} has no committed offset to shift", "use --to-offset")
    wanted = _wanted(target, spot, spot.start, spot.end)
    if wanted < spot.start:
        return Move(spot.partition, spot.before, spot.start, f"{wanted:,} is before the start")
    if wanted > spot.end:
        return Move(spot.partition, spot.before, spot.end, f"{wanted:,} is beyond the end")
    return Move(spot.partition, spot.before, wanted)


def _wanted(target: Target, spot: Spot, start: int, end: int) -> int:
    if target.to_earliest:
        return start
    if target.to_offset is not None:
        return target.to_offset
    if target.shift_by is not None:
        return (spot.before or 0) + target.shift_by
    if target.to_time_ms is not None and spot.at_time is not None and spot.at_time >= 0:
        return spot.at_time
    return end  # --to-latest, and a time after the last message


def plan_all(
    cluster: ClusterAdmin, partitions: list[Partition], committed: dict[Partition, int], target: Target
) -> list[Move]:
    """Where each of these partitions goes, as the logs are now. Raises ChronikError."""
    starts, ends = cluster.start_offsets(partitions), cluster.end_offsets(partitions)
    at_time = {} if target.to_time_ms is None else cluster.offsets(partitions, target.to_time_ms)
    return [
        plan(target, Spot(each, committed.get(each), starts.get(each), ends.get(each), at_time.get(each)))
        for each in partitions
    ]


def total_lag(progress: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Of all partitions that the group has committed; and of which of them it is not known."""
    untold = [
        f"{row['topic']}:{row['partition']}"
        for row in progress
        if row["committed_offset"] is not None and row["lag"] is None
    ]
    return sum(row["lag"] or 0 for row in progress), untold


def summary_row(group: ConsumerGroupDescription) -> dict[str, Any]:
    node = group.coordinator
    return {
        "group": group.group_id,
        "state": group.state.name.lower(),
        "type": group.type.name.lower(),
        "assignor": group.partition_assignor or None,
        "coordinator": f"{node.host}:{node.port}",
    }


def member_row(member: MemberDescription) -> dict[str, Any]:
    assigned = sorted(member.assignment.topic_partitions)
    return {
        "member": member.member_id,
        "client_id": member.client_id,
        "instance_id": member.group_instance_id,
        "host": member.host.lstrip("/"),
        "partitions": [f"{partition.topic}:{partition.partition}" for partition in assigned],
    }


def progress_rows(
    cluster: ClusterAdmin, group: ConsumerGroupDescription, committed: dict[Partition, int]
) -> list[dict[str, Any]]:
    """One row for each partition that is committed or assigned."""
    readers = {
        (assigned.topic, assigned.partition): member
        for member in group.members
        for assigned in member.assignment.topic_partitions
    }
    partitions = sorted(committed.keys() | readers.keys())
    ends = cluster.end_offsets(partitions)
    rows = []
    for partition in partitions:
        offset, end = committed.get(partition), ends.get(partition)
        reader = readers.get(partition)
        rows.append(
            {
                "topic": partition[0],
                "partition": partition[1],
                "committed_offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else max(end - offset, 0),
                "client_id": None if reader is None else reader.client_id,
                "member": None if reader is None else reader.member_id,
            }
        )
    return rows


def existing_group(cluster: ClusterAdmin, name: str) -> tuple[ConsumerGroupDescription, dict[Partition, int]]:
    """A group and what it committed; one without any member or commit is an error with the nearest name."""
    group = described_or_none(cluster, name)
    if group is None:
        raise cluster.unknown_group(name)
    return group, cluster.committed(name)
