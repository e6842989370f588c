"""A leader asks for another in-sync set (AlterPartition: KIP-497, KIP-841, KIP-903).

The checks and their order are those of Kafka's controller. Each partition has its own outcome.

A set without the leader means here that it cannot serve the partition any more, its disk has failed: one of the others
leads then, and no node counts on that copy. A follower may say the same of its own copy, by asking for the set that
there is without itself: as long as it is in sync or eligible it must not begin anew with an empty one. (Kafka refuses
both, and learns of failed disks in other ways.)
"""

from __future__ import annotations

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.brokers import checked_epoch
from chronik.core.machines.metadata.commands import ANY_BROKER_EPOCH, DONE, ChangeOutcome
from chronik.core.machines.metadata.controller_commands import (
    AlteredPartition,
    AlterPartitions,
    InSyncChange,
)
from chronik.core.machines.metadata.image import MetadataImage, Topic
from chronik.core.machines.metadata.leaders import PartitionChange
from chronik.core.machines.metadata.partition import Partition, changed
from chronik.core.machines.metadata.records import MetadataRecord


def alter_partitions(
    image: MetadataImage, command: AlterPartitions
) -> tuple[list[MetadataRecord], tuple[AlteredPartition, ...]]:
    """Records for every set that changes, and the partition after it. Raises Refused for a stale broker epoch."""
    checked_epoch(image, command.broker_id, command.broker_epoch)
    records: list[MetadataRecord] = []
    results: list[AlteredPartition] = []
    altered: dict[tuple[bytes, int], Partition] = {}  # a partition named twice sees its first change
    for wanted in command.changes:
        name = (wanted.topic_id, wanted.partition)
        try:
            topic, partition = _partition(image, wanted, altered.get(name))
            _check(image, command.broker_id, partition, wanted)
        except Refused as refused:
            results.append(AlteredPartition(ChangeOutcome(refused.code, refused.message)))
            continue
        change = PartitionChange(image, topic, wanted.partition, partition=partition)
        change.in_sync = tuple(broker_id for broker_id, _ in wanted.in_sync)
        if command.broker_id not in change.in_sync:
            change.lost = command.broker_id
        change.is_recovering = wanted.is_recovering
        record = change.record()
        if record is not None:
            records.append(record)
            partition = altered[name] = changed(partition, record)
        results.append(_result(command.broker_id, partition))
    return records, tuple(results)


def _partition(image: MetadataImage, wanted: InSyncChange, altered: Partition | None) -> tuple[Topic, Partition]:
    topic = image.topic_by_id(wanted.topic_id)
    if topic is None:
        raise Refused(Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if not 0 <= wanted.partition < len(topic.partitions):
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic.name}-{wanted.partition}")
    return topic, altered or topic.partitions[wanted.partition]


def _check(image: MetadataImage, broker_id: int, partition: Partition, wanted: InSyncChange) -> None:
    """Raises Refused when a leader may not have this set."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # It knows more than we do: another node is the controller now.
        raise Refused(Code.NOT_CONTROLLER, "The leader or partition epoch is newer than any known here.")
    if wanted.leader_epoch < partition.leader_epoch:
        raise Refused(Code.FENCED_LEADER_EPOCH, f"The leader epoch is {partition.leader_epoch} now.")
    if broker_id != partition.leader and not _gives_up_its_copy(broker_id, partition, wanted):
        raise Refused(Code.INVALID_REQUEST, f"The leader is {partition.leader}.")
    if wanted.partition_epoch < partition.partition_epoch:
        raise Refused(Code.INVALID_UPDATE_VERSION, f"The partition epoch is {partition.partition_epoch} now.")
    members = [member for member, _ in wanted.in_sync]
    if len(frozenset(members)) < len(members) or any(member not in partition.replicas for member in members):
        raise Refused(Code.INVALID_REQUEST, f"{members} are not of the replicas {list(partition.replicas)}, each once.")
    if not members:
        raise Refused(Code.INVALID_REQUEST, "The in-sync set is empty.")
    if wanted.is_recovering and len(members) > 1:
        raise Refused(Code.INVALID_REQUEST, "A leader that recovers from an unclean election is in sync alone.")
    if wanted.is_recovering and not partition.is_recovering:
        raise Refused(Code.INVALID_REQUEST, "A leader that has recovered cannot begin to recover.")
    for member, epoch in wanted.in_sync:
        problem = _ineligible(image, member, epoch)
        if problem is not None:
            raise Refused(Code.INELIGIBLE_REPLICA, f"Replica {member} cannot be in sync: {problem}.")


def _gives_up_its_copy(broker_id: int, partition: Partition, wanted: InSyncChange) -> bool:
    others = tuple(member for member in partition.in_sync if member != broker_id)
    is_replica = broker_id in partition.replicas and partition.has_leader
    return is_replica and tuple(member for member, _ in wanted.in_sync) == others


def _ineligible(image: MetadataImage, broker_id: int, epoch: int) -> str | None:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return "not registered"
    if broker.is_shutting_down:
        return "shutting down"
    if broker.is_fenced:
        return "fenced"
    if epoch not in (ANY_BROKER_EPOCH, broker.epoch):
        # It fetched, restarted (perhaps without its log), and only then was called in sync (KIP-903).
        return f"it registered again, with epoch {broker.epoch}"
    return None


def _result(broker_id: int, partition: Partition) -> AlteredPartition:
    outcome = DONE
    if partition.leader != broker_id:
        # It left the set itself, or the set completed a reassignment that it is no part of. The change stands; the
        # leader has to look.
        outcome = ChangeOutcome(Code.NEW_LEADER_ELECTED, f"The leader is {partition.leader} now.")
    return AlteredPartition(
        outcome=outcome,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        in_sync=partition.in_sync,
        is_recovering=partition.is_recovering,
        partition_epoch=partition.partition_epoch,
    )
