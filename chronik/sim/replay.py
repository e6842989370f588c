"""Replaying a machine's log gives its state: a second machine, fed with the bytes on disk, must come to the same."""

from __future__ import annotations

from typing import Any

from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.machine import LogRecord, Machine
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.records.payload import walk
from chronik.core.replica.replica import Replica
from chronik.node.node import Node, group_config
from chronik.sim.files import SimDisk
from chronik.sim.quorum_checks import differences, metadata_state
from chronik.sim.story import Story


def check_replay(node: Node, disk: SimDisk, story: Story) -> None:
    """Every machine of the node against its log. Raises Violation."""
    fresh = MetadataMachine(MetadataImage(node.identity.cluster_id, node.config))
    _replay(fresh, node.metadata.replica, disk)
    here, there = metadata_state(node.image), metadata_state(fresh.image)
    if here != there:
        raise story.break_promise(f"the metadata log and the node say: {'; '.join(differences(there, here))}")
    for machine in node.coordinators.machines():
        again = GroupsMachine(machine.partition, group_config(node.config))
        _replay(again, node.replicas.leader(OFFSETS_TOPIC, machine.partition), disk)
        mine, logged = groups_state(machine), groups_state(again)
        if mine != logged:
            raise story.break_promise(f"the log of groups {machine.partition} says {logged}, the node {mine}")


def _replay(machine: Machine, replica: Replica, disk: SimDisk) -> None:
    """From the bytes of the files, not through the log that the node has open."""
    for path in disk.paths(".log"):
        if path.startswith(f"{replica.log.directory}/"):
            for record in walk(bytes(disk.contents[path].written)):
                if record.offset >= replica.log.start_offset:
                    machine.replay(LogRecord(record.key, record.value))


def groups_state(machine: GroupsMachine) -> dict[str, Any]:
    """What survives: offsets, and of a classic group the generation it settled on."""
    groups = {}
    for group_id, group in machine.groups.items():
        offsets = {
            (topic, partition): committed.offset
            for topic, by_partition in machine.offsets.of(group_id).items()
            for partition, committed in by_partition.items()
        }
        settled = None
        if isinstance(group, ClassicGroup) and group.state == "Stable":
            settled = group.generation, {member.member_id: member.assignment for member in group.members.values()}
        groups[group_id] = (offsets, settled)
    return groups
