"""What a groups machine answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from chronik.core.errors import Code
from chronik.core.machines.groups.offsets import NO_TOPIC_ID


class TopicIdPartitions(NamedTuple):
    """Partitions of one topic, by id."""

    topic_id: bytes
    partitions: tuple[int, ...]


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """Welcome to this generation."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str  # '' where the coordinator assigns: a group of the consumer protocol
    members: tuple[JoinedMember, ...] = ()  # for the leader only
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class MemberIdRequired:
    """Here is your id: join again with it."""

    member_id: str


@dataclass(frozen=True, slots=True)
class Synced:
    protocol_type: str | None
    protocol: str | None
    assignment: bytes


@dataclass(frozen=True, slots=True)
class HeartbeatSeen:
    pass


@dataclass(frozen=True, slots=True)
class Left:
    """One code for each who wanted to leave, in order."""

    codes: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class ConsumerBeatSeen:
    """Where a member of a KIP-848 group stands. `assignment` is None when nothing changed for it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: tuple[TopicIdPartitions, ...] | None = None


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """One code for each offset of the command, in order."""

    codes: tuple[Code, ...]


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    offset: int = -1  # -1: nothing is committed
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = NO_TOPIC_ID
    code: Code = Code.NONE  # UNSTABLE_OFFSET_COMMIT: which offset is committed depends on an open transaction


@dataclass(frozen=True, slots=True)
class OffsetsFetched:
    offsets: tuple[FetchedOffset, ...]


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    """One code for each partition of the command, in order."""

    codes: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    pass


@dataclass(frozen=True, slots=True)
class GroupsCleaned:
    offsets_deleted: int


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedClassic:
    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


class DescribedConsumerMember(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    assignment: tuple[TopicIdPartitions, ...]
    target: tuple[TopicIdPartitions, ...]
    is_classic: bool  # it speaks the classic protocol


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]
