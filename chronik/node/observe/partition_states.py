"""How partitions and groups stand, as this node sees them. Pure: it looks, and changes nothing.

This loads msgspec (see trace/events.py): import it where something is looked at, not where a node starts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.consumer_group import ConsumerGroup, Partitions
from chronik.core.machines.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from chronik.core.machines.groups.describe import listed
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.records.schema import INT32, STRING, array_of
from chronik.core.replica.in_sync import UNKNOWN, FollowerProgress
from chronik.core.replica.replica import Replica
from chronik.node.coordinators.group_changes import plain
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.coordinators.transaction_coordinator import TransactionCoordinator
from chronik.trace.events import (
    FollowerSeen,
    GroupSeen,
    MarkerMissing,
    MemberSeen,
    OffsetSeen,
    OpenTransactionSeen,
    PartitionSeen,
    TransactionSeen,
)

_PARTITIONS = array_of(INT32)
UNFINISHED_MS = 1_000  # a transaction that takes no longer is not worth a word
TRANSACTIONS_MAX = 1_000  # a look, those that began first
PARTITIONS_MAX = 100  # of a transaction
MISSING_MAX = 10  # markers of a transaction


def partition_seen(
    replica: Replica, node_id: int, now_us: int, monotonic_ms: int, is_traced: bool = False
) -> PartitionSeen:
    """A partition that this node leads."""
    in_sync = replica.in_sync
    assert in_sync is not None  # only the leader knows
    log = replica.log
    return PartitionSeen(
        now_us,
        node_id,
        replica.topic,
        replica.partition,
        replica.leader_epoch,
        log.start_offset,
        replica.last_stable_offset,
        replica.high_watermark,
        log.end_offset,
        replica.durable_end_offset,
        in_sync.in_sync,
        replica.in_sync_min,
        tuple(
            follower_seen(
                follower, progress, follower in in_sync.in_sync, log.start_offset, log.end_offset, monotonic_ms
            )
            for follower, progress in in_sync.followers.items()
        ),
        log.size_bytes(),
        is_traced,
        _earliest_transaction(replica),
    )


def _earliest_transaction(replica: Replica) -> tuple[OpenTransactionSeen, ...]:
    """The one that holds back the last stable offset."""
    producers = replica.log.producers
    earliest = producers.undecided.earliest_open()
    producer = None if earliest is None else producers.get(earliest[1])
    if earliest is None or producer is None:
        return ()
    last_offset = producer.batches[-1].last_offset if producer.batches else earliest[0]
    return (OpenTransactionSeen(producer.producer_id, producer.epoch, earliest[0], last_offset),)


def follower_seen(
    follower: int, progress: FollowerProgress, is_in_sync: bool, log_start: int, leader_end: int, monotonic_ms: int
) -> FollowerSeen:
    """Where nothing happens, followers do not name the partition in their fetches: silent, but not behind."""
    durable_end_offset = progress.durable_end_offset
    if durable_end_offset >= leader_end:
        lag_ms = 0
    else:
        lag_ms = UNKNOWN if progress.caught_up_ms == UNKNOWN else monotonic_ms - progress.caught_up_ms
    return FollowerSeen(
        follower,
        is_in_sync,
        durable_end_offset,
        max(leader_end - max(durable_end_offset, log_start), 0),
        lag_ms,
        UNKNOWN if progress.fetched_ms == UNKNOWN else monotonic_ms - progress.fetched_ms,
    )


def group_seen(
    group: ClassicGroup | ConsumerGroup,
    machine: GroupsMachine,
    topic_name: Callable[[bytes], str | None],
    node_id: int,
    now_us: int,
    state_ms: int,
) -> GroupSeen:
    """A group of this machine. `topic_name` knows topics by their id; those it does not know are left out."""
    what = listed(group)
    if isinstance(group, ClassicGroup):
        generation, members = group.generation, tuple(_classic_members(group))
    else:
        generation, members = group.epoch, tuple(_consumer_members(group, topic_name))
    offsets = tuple(
        OffsetSeen(topic, partition, committed.offset)
        for topic, by_partition in machine.offsets.of(group.group_id).items()
        for partition, committed in by_partition.items()
    )
    return GroupSeen(now_us, node_id, group.group_id, what.type, what.state, generation, state_ms, members, offsets)


def groups_seen(groups: GroupCoordinator, image: MetadataImage, node_id: int, now_us: int) -> list[GroupSeen]:
    """Every group that this node coordinates and has read from its log."""

    def topic_name(topic_id: bytes) -> str | None:
        topic = image.topic_by_id(topic_id)
        return topic.name if topic is not None else None

    return [
        group_seen(group, machine, topic_name, node_id, now_us, groups.state_ms(group))
        for machine in groups.machines()
        for group in machine.groups.values()
    ]


def transactions_seen(
    transactions: TransactionCoordinator, image: MetadataImage, node_id: int, now_us: int
) -> list[TransactionSeen]:
    """Transactions that this node coordinates, and that have not been over within a second."""
    seen: list[TransactionSeen] = []
    for one, missing in transactions.unfinished():
        open_ms = now_us // 1000 - one.start_ms
        if open_ms < UNFINISHED_MS:
            continue
        seen.append(
            TransactionSeen(
                now_us,
                node_id,
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                one.status.label,
                one.timeout_ms,
                open_ms,
                max(now_us // 1000 - one.last_update_ms, 0),
                tuple((topic, partition) for topic, partition in sorted(one.partitions)[:PARTITIONS_MAX]),
                tuple(
                    MarkerMissing(topic, partition, _leader(image, topic, partition), reason)
                    for (topic, partition), reason in list(missing.items())[:MISSING_MAX]
                ),
            )
        )
        if len(seen) == TRANSACTIONS_MAX:
            break
    return seen


def _leader(image: MetadataImage, name: str, partition: int) -> int:
    topic = image.topic(name)
    return -1 if topic is None or partition >= len(topic.partitions) else topic.partitions[partition].leader


def _classic_members(group: ClassicGroup) -> Iterator[MemberSeen]:
    is_readable = group.protocol_type == CONSUMER_PROTOCOL_TYPE  # others have assignments of their own making
    for member in group.members.values():
        assigned = _assigned(member.assignment) if is_readable and member.assignment else ()
        yield MemberSeen(member.member_id, member.client_id, plain(member.client_host), assigned)


def _consumer_members(group: ConsumerGroup, topic_name: Callable[[bytes], str | None]) -> Iterator[MemberSeen]:
    for member_id, subscriber in group.subscribers.items():
        assigned = _named(group.current(member_id).assigned, topic_name)
        yield MemberSeen(member_id, subscriber.client_id, plain(subscriber.client_host), assigned)


def _named(partitions: Partitions, topic_name: Callable[[bytes], str | None]) -> tuple[tuple[str, int], ...]:
    named = ((topic_name(topic_id), partition) for topic_id, partition in sorted(partitions))
    return tuple((topic, partition) for topic, partition in named if topic is not None)


def _assigned(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """The partitions in a consumer's assignment: a version, then (in every version) the topics with their partitions.
    What a group's leader made unreadable is nothing."""
    pairs: list[tuple[str, int]] = []
    try:
        _, count = struct.unpack_from(">hi", assignment)
        position = 6
        for _ in range(count):
            topic, position = STRING.read(assignment, position, False)
            partitions, position = _PARTITIONS.read(assignment, position, False)
            pairs += [(topic, partition) for partition in partitions or ()]
    except (struct.error, IndexError, ValueError):
        return ()
    return tuple(pairs)
