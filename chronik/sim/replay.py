"""Replaying a machine's log gives its state: a second machine, fed with the bytes on disk, must come to the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicState
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.machine import LogMarker, LogRecord
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.machines.metadata.records import decode
from chronik.core.raft import snapshot_file
from chronik.core.records.batch import BatchHeader, read_header
from chronik.core.records.control import read_marker
from chronik.core.records.payload import Record, walk
from chronik.core.replica.replica import Replica
from chronik.core.types import NO_PRODUCER_ID
from chronik.node.coordinators.group_settings import group_config
from chronik.node.node import Node
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
        for entry in _entries(node.replicas.leader(OFFSETS_TOPIC, machine.partition), disk):
            if isinstance(entry, LogRecord):
                again.replay(entry)
            else:
                for fact in again.decided(entry):
                    again.apply(fact)
        under_way = rebalancing(machine)
        mine, logged = groups_state(machine, under_way), groups_state(again, under_way)
        if mine != logged:
            raise story.break_promise(f"the log of groups {machine.partition} says {logged}, the node {mine}")


def _take_in(image: MetadataImage, value: bytes | None) -> None:
    fact = decode(value) if value is not None else None
    if fact is not None:
        image.apply(fact)


def _records(replica: Replica, disk: SimDisk) -> Iterator[Record]:
    """What the metadata machine wrote."""
    for header, batch in _batches(replica, disk):
        if not header.is_control:
            yield from (record for record in walk(batch) if record.offset >= replica.log.start_offset)


def _entries(replica: Replica, disk: SimDisk) -> Iterator[LogRecord | LogMarker]:
    """What a coordinator's machine wrote, with the transactions that have ended."""
    for header, batch in _batches(replica, disk):
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and header.base_offset >= replica.log.start_offset:
                yield LogMarker(header.producer_id, marker.is_commit)
            continue
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in walk(batch):
            if record.offset >= replica.log.start_offset:
                yield LogRecord(record.key, record.value, producer_id)


def _batches(replica: Replica, disk: SimDisk) -> Iterator[tuple[BatchHeader, bytes]]:
    """From the bytes of the files, not through the log that the node has open."""
    for path in disk.paths(".log"):
        if not path.startswith(f"{replica.log.directory}/"):
            continue
        content, position = bytes(disk.contents[path].written), 0
        while position < len(content):
            header = read_header(content, position)
            yield header, content[position : position + header.size_bytes]
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
    """What survives: offsets, those pending in transactions, of a classic group the generation it settled on, and all
    of a KIP-848 group."""
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
        groups[group_id] = (offsets, sorted(machine.pending.of_group(group_id)), settled)
    return groups
