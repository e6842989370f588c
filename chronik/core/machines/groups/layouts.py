"""The layouts of the records in `__consumer_offsets`, as Kafka defines them (group-coordinator's message schemas)."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.records.schema import (
    BYTES,
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    Schema,
    array_of,
    field_of,
    nullable,
)


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str = field_of(STRING)
    topic: str = field_of(STRING)
    partition: int = field_of(INT32)


@dataclass(frozen=True, slots=True)
class CommitValueV1:
    offset: int = field_of(INT64)
    metadata: str = field_of(STRING)
    commit_ms: int = field_of(INT64)
    expire_ms: int = field_of(INT64)


@dataclass(frozen=True, slots=True)
class CommitValueV3:
    offset: int = field_of(INT64)
    leader_epoch: int = field_of(INT32)
    metadata: str = field_of(STRING)
    commit_ms: int = field_of(INT64)


@dataclass(frozen=True, slots=True)
class CommitValueV4:
    offset: int = field_of(INT64)
    leader_epoch: int = field_of(INT32)
    metadata: str = field_of(STRING)
    commit_ms: int = field_of(INT64)
    topic_id: bytes = field_of(UUID, tag=0, default=bytes(16))


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str = field_of(STRING)


@dataclass(frozen=True, slots=True)
class MemberKey:
    group_id: str = field_of(STRING)
    member_id: str = field_of(STRING)


@dataclass(frozen=True, slots=True)
class MemberValue:
    member_id: str = field_of(STRING)
    instance_id: str | None = field_of(NULLABLE_STRING)
    client_id: str = field_of(STRING)
    client_host: str = field_of(STRING)
    rebalance_timeout_ms: int = field_of(INT32)
    session_timeout_ms: int = field_of(INT32)
    subscription: bytes = field_of(BYTES)
    assignment: bytes = field_of(BYTES)


_MEMBER_V3, _MEMBER_V4 = Schema(MemberValue, flexible=False), Schema(MemberValue, flexible=True)


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """The classic layout (v3). Newer Kafka writes the same fields in the flexible encoding (v4)."""

    protocol_type: str = field_of(STRING)
    generation: int = field_of(INT32)
    protocol: str | None = field_of(NULLABLE_STRING)
    leader: str | None = field_of(NULLABLE_STRING)
    since_ms: int = field_of(INT64)
    members: tuple[MemberValue, ...] = field_of(array_of(_MEMBER_V3))


@dataclass(frozen=True, slots=True)
class GroupMetadataValueV4(GroupMetadataValue):
    members: tuple[MemberValue, ...] = field_of(array_of(_MEMBER_V4))


@dataclass(frozen=True, slots=True)
class EpochValue:
    """Group epoch and target assignment epoch look the same."""

    epoch: int = field_of(INT32)


@dataclass(frozen=True, slots=True)
class RackValue:
    """Not written any more since Kafka 4.0; still read."""

    partition: int = field_of(INT32)
    racks: tuple[str, ...] = field_of(array_of(STRING))


@dataclass(frozen=True, slots=True)
class GroupTopicValue:
    topic_id: bytes = field_of(UUID)
    name: str = field_of(STRING)
    partition_count: int = field_of(INT32)
    racks: tuple[RackValue, ...] = field_of(array_of(Schema(RackValue, flexible=True)))


@dataclass(frozen=True, slots=True)
class GroupTopicsValue:
    topics: tuple[GroupTopicValue, ...] = field_of(array_of(Schema(GroupTopicValue, flexible=True)))


@dataclass(frozen=True, slots=True)
class ClassicProtocolValue:
    name: str = field_of(STRING)
    metadata: bytes = field_of(BYTES)


@dataclass(frozen=True, slots=True)
class ClassicMetadataValue:
    session_timeout_ms: int = field_of(INT32)
    protocols: tuple[ClassicProtocolValue, ...] = field_of(array_of(Schema(ClassicProtocolValue, flexible=True)))


_CLASSIC_METADATA = nullable(Schema(ClassicMetadataValue, flexible=True))


@dataclass(frozen=True, slots=True)
class SubscriberValue:
    instance_id: str | None = field_of(NULLABLE_STRING)
    rack_id: str | None = field_of(NULLABLE_STRING)
    client_id: str = field_of(STRING)
    client_host: str = field_of(STRING)
    topics: tuple[str, ...] = field_of(array_of(STRING))
    regex: str | None = field_of(NULLABLE_STRING)
    rebalance_timeout_ms: int = field_of(INT32)
    assignor: str | None = field_of(NULLABLE_STRING)
    classic: ClassicMetadataValue | None = field_of(_CLASSIC_METADATA, tag=0, default=None)  # noqa: RUF009  # a field


@dataclass(frozen=True, slots=True)
class TopicPartitionsValue:
    topic_id: bytes = field_of(UUID)
    partitions: tuple[int, ...] = field_of(array_of(INT32))


_TOPICS = array_of(Schema(TopicPartitionsValue, flexible=True))


@dataclass(frozen=True, slots=True)
class TargetValue:
    topics: tuple[TopicPartitionsValue, ...] = field_of(_TOPICS)


@dataclass(frozen=True, slots=True)
class CurrentValue:
    epoch: int = field_of(INT32)
    previous_epoch: int = field_of(INT32)
    state: int = field_of(INT8)
    assigned: tuple[TopicPartitionsValue, ...] = field_of(_TOPICS)
    revoking: tuple[TopicPartitionsValue, ...] = field_of(_TOPICS)


OFFSET_KEY = Schema(OffsetKey, flexible=False)
COMMIT_V1 = Schema(CommitValueV1, flexible=False)
COMMIT_V3 = Schema(CommitValueV3, flexible=False)
COMMIT_V4 = Schema(CommitValueV4, flexible=True)
GROUP_KEY = Schema(GroupKey, flexible=False)
MEMBER_KEY = Schema(MemberKey, flexible=False)
METADATA_V3 = Schema(GroupMetadataValue, flexible=False)
METADATA_V4 = Schema(GroupMetadataValueV4, flexible=True)
EPOCH = Schema(EpochValue, flexible=True)
GROUP_TOPICS = Schema(GroupTopicsValue, flexible=True)
SUBSCRIBER = Schema(SubscriberValue, flexible=True)
TARGET = Schema(TargetValue, flexible=True)
CURRENT = Schema(CurrentValue, flexible=True)
