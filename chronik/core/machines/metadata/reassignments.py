"""Partitions move to other brokers (KIP-455): the new replicas join, and when all that are to stay are in sync, the
old ones go. That last step is taken by whatever change makes it true, in leaders.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.assignments import check_assignment
from chronik.core.machines.metadata.commands import DONE, ChangeOutcome
from chronik.core.machines.metadata.controller_commands import AlterReassignments, PartitionMove, Reassignment
from chronik.core.machines.metadata.image import MetadataImage, Topic
from chronik.core.machines.metadata.leaders import ElectionKind, PartitionChange
from chronik.core.machines.metadata.partition import Replicas
from chronik.core.machines.metadata.records import MetadataRecord, PartitionChangeRecord


def alter_reassignments(
    image: MetadataImage, command: AlterReassignments
) -> tuple[list[MetadataRecord], tuple[ChangeOutcome, ...]]:
    """Records for every move that begins or is taken back, and how it went with each."""
    records: list[MetadataRecord] = []
    results: list[ChangeOutcome] = []
    seen: dict[tuple[str, int], None] = {}
    for wanted in command.reassignments:
        try:
            if (wanted.topic, wanted.partition) in seen:
                raise Refused(Code.INVALID_REQUEST, "The partition is named twice.")
            seen[wanted.topic, wanted.partition] = None
            record = _altered(image, wanted, command.may_change_factor)
        except Refused as refused:
            results.append(ChangeOutcome(refused.code, refused.message))
            continue
        records += [] if record is None else [record]
        results.append(DONE)
    return records, tuple(results)


def _altered(image: MetadataImage, wanted: Reassignment, may_change_factor: bool) -> PartitionChangeRecord | None:
    topic = image.topic(wanted.topic)
    if topic is None or not 0 <= wanted.partition < len(topic.partitions):
        message = f"Unable to find partition {wanted.topic}:{wanted.partition}."
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, message)
    if wanted.replicas is None:
        return _taken_back(image, topic, wanted.partition)
    present = topic.partitions[wanted.partition]
    factor = len(_without(present.replicas, present.removing))
    if not may_change_factor and len(wanted.replicas) != factor:
        message = f"The replication factor is changed from {factor} to {len(wanted.replicas)}"
        raise Refused(Code.INVALID_REPLICATION_FACTOR, message)
    return _begun(image, topic, wanted.partition, wanted.replicas)


def _begun(image: MetadataImage, topic: Topic, number: int, target: Replicas) -> PartitionChangeRecord | None:
    """The wanted replicas first, then those that go: the first wanted is the preferred leader from now on."""
    check_assignment(image, target)
    change = PartitionChange(image, topic, number)
    present = change.partition
    original = _without(present.replicas, present.adding)
    # A replica that a move under way was adding, and nothing wants any more, is left out at once, unless the partition
    # counts on it: then it goes with the others. It stays one that was added, so that it is no replica if the move is
    # taken back.
    counted_on = (*present.in_sync, *present.eligible)
    unwanted = tuple(replica for replica in _without(present.adding, target) if replica in counted_on)
    change.removing = tuple(sorted((*_without(original, target), *unwanted)))
    # Who a move under way was adding is still being added, unless it is in sync already. (Kafka forgets that it is.)
    change.adding = tuple(sorted((*_without(target, original), *unwanted)))
    change.replicas = (*target, *change.removing)
    # A move never loses records, whatever the topic allows in an emergency.
    change.election = ElectionKind.ONLINE
    return change.record()


def _taken_back(image: MetadataImage, topic: Topic, number: int) -> PartitionChangeRecord | None:
    change = PartitionChange(image, topic, number)
    present = change.partition
    if not present.is_moving:
        raise Refused(Code.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    change.replicas = _without(present.replicas, present.adding)
    change.in_sync = _without(present.in_sync, present.adding)
    if not change.in_sync:  # then the election finds one that is eligible, or says that its leader is an unclean one
        is_one_there = any(image.is_active(replica) for replica in change.replicas)
        if change.election is not ElectionKind.UNCLEAN or not is_one_there:
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean "
                "leader election.",
            )
    change.adding = change.removing = ()
    return change.record()


def moves(image: MetadataImage, topics: Sequence[tuple[str, Sequence[int]]] | None = None) -> Iterator[PartitionMove]:
    """The reassignments under way: of these partitions, or all."""
    if topics is None:
        under_way = [image.topic_by_id(topic_id) for topic_id in image.holdings.moving_topics()]
        topics = [(topic.name, range(len(topic.partitions))) for topic in under_way if topic is not None]
    for name, numbers in topics:
        for number in numbers:
            partition = image.partition(name, number)
            if partition is not None and partition.is_moving:
                adding = _without(partition.adding, partition.removing)  # both: an earlier move added it
                yield PartitionMove(name, number, partition.replicas, adding, partition.removing)


def _without(replicas: Replicas, gone: Replicas) -> Replicas:
    return tuple(replica for replica in replicas if replica not in gone)
