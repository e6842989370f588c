"""Replaying a machine's log gives its state: a second machine, fed with the bytes on disk, must come to the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicState
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.machine import LogRecord
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.machines.metadata.records import decode
from chronik.core.raft import snapshot_file
from chronik.core.records.batch import read_header
from chronik.core.records.payload import Record, walk
from chronik.core.replica.replica import Replica
from chronik.node.node import Node, group_config
from chronik.sim.files import SimDisk
from chronik.sim.quorum_checks import differences, metadata_state
from chronik.sim.story import WorldStory


def check_replay(node: Node, disk: SimDisk, story: WorldStory) -> None:
    """Every machine of the node against its log. Raises Violation."""
    fresh = MetadataImage(node.identity.cluster_id, node.config)
    snapshot = node.cluster.quorum.log.snapshot
    if snapshot is not None:
        for value in snapshot_file.decode(disk.read_all(node.cluster.quorum.log.snapshot_path(snapshot))).values:
            _take_in(fresh, value)
    start_offset = 0 if snapshot is None else snapshot.end_offset
    for record in _records(node.cluster.quorum.replica, disk):
        if start_offset <= record.offset < node.image.version:
            _take_in(fresh, record.value)
    here, there = metadata_state(node.image), metadata_state(fresh)
    if here != there:
        raise story.break_promise(f"the metadata log and the node say: {'; '.join(differences(there, here))}")
    for machine in node.groups.machines():
        again = GroupsMachine(machine.partition, group_config(node.config.groups, node.config.offsets))
        for record in _records(node.replicas.leader(OFFSETS_TOPIC, machine.partition), disk):
            again.replay(LogRecord(record.key, record.value))
        under_way = rebalancing(machine)
        mine, logged = groups_state(machine, under_way), groups_state(again, under_way)
        if mine != logged:
            raise story.break_promise(f"the log of groups {machine.partition} says {logged}, the node {mine}")


def _take_in(image: MetadataImage, value: bytes | None) -> None:
    fact = decode(value) if value is not None else None
    if fact is not None:
        image.apply(fact)


def _records(replica: Replica, disk: SimDisk) -> Iterator[Record]:
    """What machines wrote, from the bytes of the files, not through the log that the node has open."""
    for path in disk.paths(".log"):
        if not path.startswith(f"{replica.log.directory}/"):
            continue
        content, position = bytes(disk.contents[path].written), 0
        while position < len(content):
            header = read_header(content, position)
            if not header.is_control:
                batch = content[position : position + header.size_bytes]
                yield from (record for record in walk(batch) if record.offset >= replica.log.start_offset)
            position += header.size_bytes


def rebalancing(machine: GroupsMachine) -> tuple[str, ...]:
    """Groups that are between two generations: of that their log knows nothing yet."""
    return tuple(
        group_id
        for group_id, group in machine.groups.items()
        if isinstance(group, ClassicGroup)
        and group.state in (ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE)
    )


def groups_state(machine: GroupsMachine, under_way: tuple[str, ...] = ()) -> dict[str, Any]:
    """What survives: offsets, of a classic group the generation it settled on, and all of a KIP-848 group."""
    groups = {}
    for group_id, group in machine.groups.items():
        offsets = {
            (topic, partition): committed.offset
            for topic, by_partition in machine.offsets.of(group_id).items()
            for partition, committed in by_partition.items()
        }
        settled: Any = None
        if isinstance(group, ConsumerGroup):
            settled = group.epoch, group.target_epoch, group.subscribers, group.targets, group.currents
        elif group.state == ClassicState.STABLE and group_id not in under_way:
            settled = group.generation, {member.member_id: member.assignment for member in group.members.values()}
        groups[group_id] = (offsets, settled)
    return groups
