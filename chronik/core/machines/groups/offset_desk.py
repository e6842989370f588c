"""Decisions about committed offsets: commit, fetch, delete, and forget what is not needed any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import (
    FetchedOffset,
    GroupDeleted,
    GroupsCleaned,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicState
from chronik.core.machines.groups.commands import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
    TopicsDeleted,
)
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from chronik.core.machines.groups.facts import (
    ClassicGroupForgotten,
    CurrentSet,
    GroupEpochSet,
    GroupFact,
    GroupTopicsSet,
    OffsetSet,
    PendingOffsetSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerSet,
)
from chronik.core.machines.groups.offsets import NO_EXPIRY, CommittedOffset, CommittedOffsets, measuring_ms, stamp_ms
from chronik.core.machines.groups.pending_offsets import OffsetOwner, PendingOffsets
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import Decision, Reply

Group: TypeAlias = ClassicGroup | ConsumerGroup
Groups: TypeAlias = Mapping[str, Group]


def commit(
    ticket: int, command: CommitOffsets, groups: Groups, config: GroupConfig, now_ms: int, wall_ms: int | None = None
) -> Decision[GroupFact]:
    group = groups.get(command.group_id)
    _check_commit(command, group)
    taken, codes = _within_limit(command.offsets, config)
    at_ms = stamp_ms(now_ms, wall_ms)
    facts: list[GroupFact] = [
        OffsetSet(command.group_id, each.topic, each.partition, _committed(each, command.retention_ms, at_ms))
        for each in taken
    ]
    if isinstance(group, ClassicGroup) and command.member_id in group.members:
        # A member that commits is alive.
        session_ms = group.members[command.member_id].session_timeout_ms
        facts.append(TimerSet(TimerKey(TimerKind.SESSION, command.group_id, command.member_id), now_ms + session_ms))
    return Decision(facts, [Reply(ticket, OffsetsCommitted(codes))])


def _check_commit(command: CommitOffsets, group: Group | None) -> None:
    match group:
        case None:
            if command.generation >= 0:
                raise Refused(Code.GROUP_ID_NOT_FOUND if command.knows_epochs else Code.ILLEGAL_GENERATION)
        case ClassicGroup():
            group.check_commit(command.member_id, command.instance_id, command.generation)
        case ConsumerGroup():
            if command.generation < 0 and group.is_empty:
                return
            member = group.subscribers.get(command.member_id)
            if not command.knows_epochs and member is not None and member.classic is None:
                raise Refused(Code.UNSUPPORTED_VERSION, "a consumer group wants OffsetCommit v9 or later")
            group.check_epoch(command.member_id, command.generation)


def commit_in_transaction(
    ticket: int,
    command: CommitOffsetsInTransaction,
    groups: Groups,
    config: GroupConfig,
    now_ms: int,
    wall_ms: int | None = None,
) -> Decision[GroupFact]:
    """As `commit`, but what it says counts when the transaction commits; and it does not show that a member is alive,
    since it comes from a producer."""
    _check_commit_in_transaction(command, groups.get(command.group_id))
    taken, codes = _within_limit(command.offsets, config)
    at_ms = stamp_ms(now_ms, wall_ms)
    facts: list[GroupFact] = [
        PendingOffsetSet(
            command.producer_id, command.group_id, each.topic, each.partition, _committed(each, NO_EXPIRY, at_ms)
        )
        for each in taken
    ]
    return Decision(facts, [Reply(ticket, OffsetsCommitted(codes))])


def _check_commit_in_transaction(command: CommitOffsetsInTransaction, group: Group | None) -> None:
    """KIP-447: the consumer that the offsets come from must be a member still, in this generation or epoch. Clients
    before say nothing of it, and are fenced by their transactional id alone."""
    is_silent = command.generation < 0 and not command.member_id and command.instance_id is None
    match group:
        case None:
            if command.generation >= 0:
                raise Refused(Code.GROUP_ID_NOT_FOUND if command.knows_epochs else Code.ILLEGAL_GENERATION)
        case ClassicGroup():
            if not is_silent:
                group.check_commit_in_transaction(command.member_id, command.instance_id, command.generation)
        case ConsumerGroup():
            if is_silent or (command.generation < 0 and group.is_empty):
                return
            try:
                group.check_epoch(command.member_id, command.generation)
            except Refused as refused:
                if refused.code is not Code.STALE_MEMBER_EPOCH or command.knows_epochs:
                    raise
                # Older producers do not know it, but what they do about this one is right.
                raise Refused(Code.ILLEGAL_GENERATION, refused.message) from refused


def _within_limit(
    offsets: Sequence[OffsetToCommit], config: GroupConfig
) -> tuple[list[OffsetToCommit], tuple[Code, ...]]:
    """Those whose metadata is not too long, and a code for each of all."""
    limit = config.offset_metadata_max_bytes
    fits = [len((offset.metadata or "").encode()) <= limit for offset in offsets]
    taken = [offset for offset, is_taken in zip(offsets, fits, strict=True) if is_taken]
    return taken, tuple(Code.NONE if is_taken else Code.OFFSET_METADATA_TOO_LARGE for is_taken in fits)


def _committed(offset: OffsetToCommit, retention_ms: int, commit_ms: int) -> CommittedOffset:
    expire_ms = NO_EXPIRY if retention_ms < 0 else commit_ms + retention_ms
    metadata = offset.metadata or ""
    return CommittedOffset(offset.offset, offset.leader_epoch, metadata, commit_ms, expire_ms, offset.topic_id)


def fetch(
    ticket: int, command: FetchOffsets, groups: Groups, offsets: CommittedOffsets, pending: PendingOffsets
) -> Decision[GroupFact]:
    group = groups.get(command.group_id)
    if isinstance(group, ConsumerGroup) and (command.member_id is not None or command.member_epoch >= 0):
        group.check_epoch(command.member_id or "", command.member_epoch)
    partitions = command.partitions
    if partitions is None:
        partitions = tuple((topic, p) for topic, of_topic in offsets.of(command.group_id).items() for p in of_topic)
    owners = [OffsetOwner(command.group_id, topic, partition) for topic, partition in partitions]
    found = tuple(
        FetchedOffset(owner.topic, owner.partition, code=Code.UNSTABLE_OFFSET_COMMIT)
        if command.requires_stable and pending.is_pending(owner)
        else _fetched(offsets, *owner)
        for owner in owners
    )
    return Decision([], [Reply(ticket, OffsetsFetched(found))])


def _fetched(offsets: CommittedOffsets, group_id: str, topic: str, partition: int) -> FetchedOffset:
    committed = offsets.get(group_id, topic, partition)
    if committed is None:
        return FetchedOffset(topic, partition)
    noted = committed.offset, committed.leader_epoch, committed.metadata, committed.topic_id
    return FetchedOffset(topic, partition, *noted)


def delete_offsets(
    ticket: int, command: DeleteOffsets, groups: Groups, offsets: CommittedOffsets, pending: PendingOffsets
) -> Decision[GroupFact]:
    """Those that are pending go as well, and no marker brings them back: as in Kafka."""
    group = groups.get(command.group_id)
    if group is None:
        raise Refused(Code.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise Refused(Code.NON_EMPTY_GROUP)  # we cannot know what members of another kind use
    facts: list[GroupFact] = []
    codes: list[Code] = []
    for topic, partition in command.partitions:
        if group.is_subscribed_to(topic):
            codes.append(Code.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        codes.append(Code.NONE)
        owner = OffsetOwner(command.group_id, topic, partition)
        if offsets.get(*owner) is not None or pending.is_pending(owner):
            facts.append(OffsetSet(command.group_id, topic, partition, None))
    return Decision(facts, [Reply(ticket, OffsetsDeleted(tuple(codes)))])


def delete_group(
    ticket: int, command: DeleteGroup, groups: Groups, offsets: CommittedOffsets, pending: PendingOffsets
) -> Decision[GroupFact]:
    group = groups.get(command.group_id)
    if group is None:
        raise Refused(Code.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise Refused(Code.NON_EMPTY_GROUP)
    facts = [*_forget_offsets(command.group_id, offsets, pending), *forget_group(group)]
    return Decision(facts, [Reply(ticket, GroupDeleted())], is_atomic=False)  # there may be more than a batch holds


def _forget_offsets(group_id: str, offsets: CommittedOffsets, pending: PendingOffsets) -> Iterator[GroupFact]:
    for topic, of_topic in offsets.of(group_id).items():
        for partition in of_topic:
            yield OffsetSet(group_id, topic, partition, None)
    for owner in sorted(pending.of_group(group_id)):
        if offsets.get(*owner) is None:
            yield OffsetSet(*owner, None)


def forget_group(group: Group) -> list[GroupFact]:
    """The facts that take an empty group back. Its offsets stay: they may pass to a group of the other kind."""
    if isinstance(group, ClassicGroup):
        return [ClassicGroupForgotten(group.group_id)]
    facts: list[GroupFact] = []
    for member_id in sorted({*group.subscribers, *group.targets, *group.currents}):
        facts += [
            CurrentSet(group.group_id, member_id, None),
            TargetSet(group.group_id, member_id, None),
            SubscriberSet(group.group_id, member_id, None),
        ]
    return [
        *facts,
        TargetEpochSet(group.group_id, None),
        GroupTopicsSet(group.group_id, None),
        GroupEpochSet(group.group_id, None),
    ]


def topics_deleted(
    ticket: int, command: TopicsDeleted, offsets: CommittedOffsets, pending: PendingOffsets
) -> Decision[GroupFact]:
    owners = dict.fromkeys([*offsets.of_topics(command.topics), *pending.of_topics(command.topics)])
    facts = [OffsetSet(*owner, None) for owner in owners]
    return Decision(list(facts), [Reply(ticket, GroupsCleaned(len(facts)))], is_atomic=False)


def expire_offsets(
    groups: Groups,
    offsets: CommittedOffsets,
    pending: PendingOffsets,
    config: GroupConfig,
    now_ms: int,
    wall_ms: int | None = None,
) -> list[GroupFact]:
    """Forget offsets that outlived their retention, and then empty groups without any. Not those that a transaction is
    about to commit anew: it would go with them."""
    at_ms = measuring_ms(now_ms, wall_ms)
    facts: list[GroupFact] = []
    for group_id, group in groups.items():
        left = 0
        for topic, of_topic in offsets.of(group_id).items():
            for partition, committed in of_topic.items():
                since_ms = _needed_until_ms(group, topic, committed, at_ms)
                is_over = committed.is_expired(at_ms, since_ms, config.offsets_retention_ms) and since_ms < at_ms
                if is_over and not pending.is_pending(OffsetOwner(group_id, topic, partition)):
                    facts.append(OffsetSet(group_id, topic, partition, None))
                else:
                    left += 1
        is_joined = isinstance(group, ClassicGroup) and bool(group.pending_joins)
        if not left and group.is_empty and not is_joined and not pending.has_group(group_id):
            facts += forget_group(group)
    return facts


def _needed_until_ms(group: Group, topic: str, committed: CommittedOffset, now_ms: int) -> int:
    """When the group last needed this offset (KIP-211); `now_ms` while it still does."""
    if isinstance(group, ConsumerGroup):
        return now_ms if group.is_subscribed_to(topic) else committed.commit_ms
    if group.protocol_type is None:
        return committed.commit_ms
    if group.is_empty:
        return group.since_ms if group.since_ms >= 0 else committed.commit_ms
    if group.state is ClassicState.STABLE and not group.is_subscribed_to(topic):
        return committed.commit_ms if group.protocol_type == CONSUMER_PROTOCOL_TYPE else now_ms
    return now_ms
