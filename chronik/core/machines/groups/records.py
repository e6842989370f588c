"""The durable facts of a groups machine in Kafka's record formats.

A record's key begins with a number that says what it is about, its value with the version of its layout. An empty
value takes the fact back. One layout of each is written; older and newer ones that Kafka wrote are read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from chronik.core.errors import Corrupt
from chronik.core.machines.groups.answers import TopicIdPartitions
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_group import (
    ClassicMetadata,
    Current,
    MemberState,
    Partitions,
    Subscriber,
    by_topic,
    flat,
)
from chronik.core.machines.groups.facts import (
    ClassicGroupForgotten,
    ClassicGroupSaved,
    CurrentSet,
    GroupEpochSet,
    GroupFact,
    GroupTopicsSet,
    OffsetSet,
    PendingOffsetSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
)
from chronik.core.machines.groups.layouts import (
    COMMIT_V1,
    COMMIT_V3,
    COMMIT_V4,
    CURRENT,
    EPOCH,
    GROUP_KEY,
    GROUP_TOPICS,
    MEMBER_KEY,
    METADATA_V3,
    METADATA_V4,
    OFFSET_KEY,
    SUBSCRIBER,
    TARGET,
    ClassicMetadataValue,
    ClassicProtocolValue,
    CommitValueV1,
    CommitValueV3,
    CommitValueV4,
    CurrentValue,
    EpochValue,
    GroupKey,
    GroupMetadataValue,
    GroupTopicsValue,
    GroupTopicValue,
    MemberKey,
    MemberValue,
    OffsetKey,
    SubscriberValue,
    TargetValue,
    TopicPartitionsValue,
)
from chronik.core.machines.groups.offsets import NO_EXPIRY, NO_TOPIC_ID, CommittedOffset
from chronik.core.machines.machine import LogRecord
from chronik.core.records.schema import Schema
from chronik.core.types import NO_PRODUCER_ID

RecordT = TypeVar("RecordT")

_INT16 = struct.Struct(">h")

OFFSET_COMMIT_TYPES = (0, 1)
CLASSIC_GROUP_TYPE = 2
EPOCH_TYPE, TOPICS_TYPE, SUBSCRIBER_TYPE, TARGET_EPOCH_TYPE, TARGET_TYPE, CURRENT_TYPE = 3, 4, 5, 6, 7, 8


def _pack(number: int, schema: Schema[RecordT], record: RecordT) -> bytes:
    return _INT16.pack(number) + schema.encode(record)


def encode(fact: GroupFact) -> LogRecord:
    """A durable fact as it stands in the log."""
    match fact:
        case OffsetSet(group_id, topic, partition, committed):
            key = _pack(1, OFFSET_KEY, OffsetKey(group_id, topic, partition))
            return LogRecord(key, None if committed is None else _encode_commit(committed))
        case PendingOffsetSet(producer_id, group_id, topic, partition, pending):
            key = _pack(1, OFFSET_KEY, OffsetKey(group_id, topic, partition))
            return LogRecord(key, _encode_commit(pending), producer_id)
        case ClassicGroupSaved(group):
            key = _pack(CLASSIC_GROUP_TYPE, GROUP_KEY, GroupKey(group.group_id))
            return LogRecord(key, _pack(3, METADATA_V3, _metadata_of(group)))
        case ClassicGroupForgotten(group_id):
            return LogRecord(_pack(CLASSIC_GROUP_TYPE, GROUP_KEY, GroupKey(group_id)), None)
        case GroupEpochSet(group_id, epoch):
            key = _pack(EPOCH_TYPE, GROUP_KEY, GroupKey(group_id))
            return LogRecord(key, None if epoch is None else _pack(0, EPOCH, EpochValue(epoch)))
        case TargetEpochSet(group_id, epoch):
            key = _pack(TARGET_EPOCH_TYPE, GROUP_KEY, GroupKey(group_id))
            return LogRecord(key, None if epoch is None else _pack(0, EPOCH, EpochValue(epoch)))
        case GroupTopicsSet(group_id, topics):
            key = _pack(TOPICS_TYPE, GROUP_KEY, GroupKey(group_id))
            if topics is None:
                return LogRecord(key, None)
            values = tuple(GroupTopicValue(t.topic_id, name, t.partition_count, ()) for name, t in topics.items())
            return LogRecord(key, _pack(0, GROUP_TOPICS, GroupTopicsValue(values)))
        case SubscriberSet(group_id, member_id, subscriber):
            key = _pack(SUBSCRIBER_TYPE, MEMBER_KEY, MemberKey(group_id, member_id))
            return LogRecord(key, None if subscriber is None else _pack(0, SUBSCRIBER, _subscriber_value(subscriber)))
        case TargetSet(group_id, member_id, partitions):
            key = _pack(TARGET_TYPE, MEMBER_KEY, MemberKey(group_id, member_id))
            return LogRecord(key, None if partitions is None else _pack(0, TARGET, TargetValue(_topics(partitions))))
        case CurrentSet(group_id, member_id, current):
            key = _pack(CURRENT_TYPE, MEMBER_KEY, MemberKey(group_id, member_id))
            return LogRecord(key, None if current is None else _pack(0, CURRENT, _current_value(current)))
    raise TypeError(f"not a durable fact: {fact!r}")


def decode(record: LogRecord) -> GroupFact | None:
    """The fact in a record; None when its key is of a kind we do not know."""
    if record.key is None:
        raise Corrupt("group record", "no key")
    kind = _number(record.key, "key")
    if kind in OFFSET_COMMIT_TYPES:
        offset_key = OFFSET_KEY.decode(record.key, 2)
        about = offset_key.group_id, offset_key.topic, offset_key.partition
        committed = _read(record.value, _decode_commit)
        if committed is not None and record.producer_id != NO_PRODUCER_ID:
            return PendingOffsetSet(record.producer_id, *about, committed)
        return OffsetSet(*about, committed)
    if kind in (CLASSIC_GROUP_TYPE, EPOCH_TYPE, TOPICS_TYPE, TARGET_EPOCH_TYPE):
        return _decode_group(kind, GROUP_KEY.decode(record.key, 2).group_id, record.value)
    if kind in (SUBSCRIBER_TYPE, TARGET_TYPE, CURRENT_TYPE):
        member_key = MEMBER_KEY.decode(record.key, 2)
        return _decode_member(kind, member_key.group_id, member_key.member_id, record.value)
    return None


def _decode_group(kind: int, group_id: str, value: bytes | None) -> GroupFact:
    if kind == CLASSIC_GROUP_TYPE:
        if value is None:
            return ClassicGroupForgotten(group_id)
        return ClassicGroupSaved(_group_of(group_id, _decode_metadata(value)))
    if kind == EPOCH_TYPE:
        return GroupEpochSet(group_id, _read(value, lambda v: EPOCH.decode(v, 2).epoch))
    if kind == TARGET_EPOCH_TYPE:
        return TargetEpochSet(group_id, _read(value, lambda v: EPOCH.decode(v, 2).epoch))
    return GroupTopicsSet(
        group_id,
        _read(
            value,
            lambda v: {t.name: TopicShape(t.topic_id, t.partition_count) for t in GROUP_TOPICS.decode(v, 2).topics},
        ),
    )


def _decode_member(kind: int, group_id: str, member_id: str, value: bytes | None) -> GroupFact:
    if kind == SUBSCRIBER_TYPE:
        return SubscriberSet(group_id, member_id, _read(value, _subscriber_of))
    if kind == TARGET_TYPE:
        return TargetSet(group_id, member_id, _read(value, lambda v: _flat(TARGET.decode(v, 2).topics)))
    return CurrentSet(group_id, member_id, _read(value, _current_of))


def _read(value: bytes | None, decoder: Callable[[bytes], RecordT]) -> RecordT | None:
    return None if value is None else decoder(value)


def _number(buffer: bytes, what: str) -> int:
    try:
        return int(_INT16.unpack_from(buffer)[0])
    except struct.error as problem:
        raise Corrupt(f"group record {what}", str(problem)) from problem


def _encode_commit(committed: CommittedOffset) -> bytes:
    c = committed
    if c.expire_ms != NO_EXPIRY:
        # Only the first layout has room for an expiry of its own; clients that ask for one know no leader epochs.
        return _pack(1, COMMIT_V1, CommitValueV1(c.offset, c.metadata, c.commit_ms, c.expire_ms))
    if c.topic_id == NO_TOPIC_ID:
        return _pack(3, COMMIT_V3, CommitValueV3(c.offset, c.leader_epoch, c.metadata, c.commit_ms))
    return _pack(4, COMMIT_V4, CommitValueV4(c.offset, c.leader_epoch, c.metadata, c.commit_ms, c.topic_id))


def _decode_commit(value: bytes) -> CommittedOffset:
    version = _number(value, "value")
    if version == 1:
        old = COMMIT_V1.decode(value, 2)
        return CommittedOffset(old.offset, -1, old.metadata, old.commit_ms, old.expire_ms)
    if version not in (3, 4):
        raise Corrupt("OffsetCommitValue", f"version {version}")
    if version == 3:
        new = COMMIT_V3.decode(value, 2)
        return CommittedOffset(new.offset, new.leader_epoch, new.metadata, new.commit_ms)
    newest = COMMIT_V4.decode(value, 2)
    about = newest.offset, newest.leader_epoch, newest.metadata, newest.commit_ms
    return CommittedOffset(*about, topic_id=newest.topic_id)


def _metadata_of(group: ClassicGroup) -> GroupMetadataValue:
    members = tuple(
        MemberValue(
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            m.rebalance_timeout_ms,
            m.session_timeout_ms,
            m.metadata(group.protocol),
            m.assignment,
        )
        for m in group.members.values()
    )
    return GroupMetadataValue(
        group.protocol_type or "", group.generation, group.protocol, group.leader, group.since_ms, members
    )


def _decode_metadata(value: bytes) -> GroupMetadataValue:
    version = _number(value, "value")
    if version not in (3, 4):
        raise Corrupt("GroupMetadataValue", f"version {version}")
    return (METADATA_V3 if version == 3 else METADATA_V4).decode(value, 2)


def _group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    members = {
        m.member_id: ClassicMember(
            member_id=m.member_id,
            instance_id=m.instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            session_timeout_ms=m.session_timeout_ms,
            rebalance_timeout_ms=m.rebalance_timeout_ms,
            # Of the protocols a member supports the log knows only the one that was chosen.
            protocols=((value.protocol or "", m.subscription),),
            assignment=m.assignment,
        )
        for m in value.members
    }
    return ClassicGroup(
        group_id=group_id,
        state=ClassicState.STABLE if members else ClassicState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        since_ms=value.since_ms,
        members=members,
    )


def _topics(partitions: Partitions) -> tuple[TopicPartitionsValue, ...]:
    return tuple(TopicPartitionsValue(topic.topic_id, topic.partitions) for topic in by_topic(partitions))


def _flat(topics: tuple[TopicPartitionsValue, ...]) -> Partitions:
    return flat(TopicIdPartitions(topic.topic_id, topic.partitions) for topic in topics)


def _subscriber_value(s: Subscriber) -> SubscriberValue:
    classic = None
    if s.classic is not None:
        protocols = tuple(ClassicProtocolValue(name, metadata) for name, metadata in s.classic.protocols)
        classic = ClassicMetadataValue(s.classic.session_timeout_ms, protocols)
    about = s.instance_id, s.rack_id, s.client_id, s.client_host, s.topics, s.regex, s.rebalance_timeout_ms, s.assignor
    return SubscriberValue(*about, classic)


def _subscriber_of(value: bytes) -> Subscriber:
    v = SUBSCRIBER.decode(value, 2)
    classic = None
    if v.classic is not None:
        protocols = tuple((protocol.name, protocol.metadata) for protocol in v.classic.protocols)
        classic = ClassicMetadata(v.classic.session_timeout_ms, protocols)
    about = v.instance_id, v.rack_id, v.client_id, v.client_host, v.topics, v.regex, v.rebalance_timeout_ms, v.assignor
    return Subscriber(*about, classic)


def _current_value(c: Current) -> CurrentValue:
    return CurrentValue(c.epoch, c.previous_epoch, int(c.state), _topics(c.assigned), _topics(c.revoking))


def _current_of(value: bytes) -> Current:
    v = CURRENT.decode(value, 2)
    return Current(v.epoch, v.previous_epoch, MemberState(v.state), _flat(v.assigned), _flat(v.revoking))
