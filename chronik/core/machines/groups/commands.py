"""What a groups machine can be asked. Each command's type says what it is answered with (see answers.py).

A command is complete in itself: what chance or the metadata would have to say about it is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from chronik.core.machines.groups.answers import (
    ConsumerBeatSeen,
    DescribedClassic,
    DescribedConsumer,
    GroupDeleted,
    GroupsCleaned,
    HeartbeatSeen,
    Joined,
    Left,
    MemberIdRequired,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
    Synced,
    TopicIdPartitions,
)
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from chronik.core.machines.machine import AnswerT_co, Command


class GroupCommand(Command[AnswerT_co]):
    """One of those below; they are all in `AnyGroupCommand`."""

    __slots__ = ()


class TopicShape(NamedTuple):
    """What the metadata says about a topic."""

    topic_id: bytes
    partition_count: int


@dataclass(frozen=True, slots=True)
class Join(GroupCommand[Joined | MemberIdRequired]):
    """A member wants to join by the classic protocol. Joined once the rebalance allows."""

    group_id: str
    member_id: str  # '' when it has none yet
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    new_member_id: str  # used when the member has none
    needs_known_member_id: bool = True  # JoinGroup v4 and later (KIP-394)
    may_skip_assignment: bool = True  # JoinGroup v9 and later (KIP-814)
    # Every topic there is, by name: for a group that assigns them to its members itself (KIP-848).
    topics: Mapping[str, TopicShape] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sync(GroupCommand[Synced]):
    """A member asks for its assignment; the leader brings everyone's."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Beat(GroupCommand[HeartbeatSeen]):
    """A member that speaks the classic protocol is alive."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


class Leaver(NamedTuple):
    """Who leaves: by member id, or (by an administrator) by instance id alone."""

    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class Leave(GroupCommand[Left]):
    """Members that speak the classic protocol leave."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class ConsumerBeat(GroupCommand[ConsumerBeatSeen]):
    """The one request of KIP-848: join (epoch 0), stay, leave (-1, or -2 to come back).

    A field that is None (or a negative timeout) has not changed since the last heartbeat.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None  # '' takes a regex back
    assignor: str | None = None
    owned: tuple[TopicIdPartitions, ...] | None = None
    client_id: str = ""
    client_host: str = ""
    # Every topic there is, by name: the machine picks what the group subscribes to.
    topics: Mapping[str, TopicShape] = field(default_factory=dict)


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class CommitOffsets(GroupCommand[OffsetsCommitted]):
    """Offsets to keep."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int  # or member epoch; -1 for a commit outside of group management
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1  # OffsetCommit v2-v4 only
    knows_epochs: bool = True  # OffsetCommit v9 and later (KIP-848)


@dataclass(frozen=True, slots=True)
class CommitOffsetsInTransaction(GroupCommand[OffsetsCommitted]):
    """Offsets to keep if the producer's transaction commits. Its records are to be written as part of that."""

    group_id: str
    member_id: str  # '' from clients that do not say which consumer they commit for (before KIP-447)
    instance_id: str | None
    generation: int  # or member epoch; -1 from such clients
    offsets: tuple[OffsetToCommit, ...]
    producer_id: int
    knows_epochs: bool = False  # TxnOffsetCommit v6 and later: the client knows the errors of KIP-848


@dataclass(frozen=True, slots=True)
class FetchOffsets(GroupCommand[OffsetsFetched]):
    """Committed offsets of these partitions, or of all when None."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    requires_stable: bool = False  # an offset is not returned while another is pending in a transaction (KIP-447)


@dataclass(frozen=True, slots=True)
class DeleteOffsets(GroupCommand[OffsetsDeleted]):
    """Forget committed offsets."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup(GroupCommand[GroupDeleted]):
    """Forget an empty group and all its offsets."""

    group_id: str


@dataclass(frozen=True, slots=True)
class TopicsDeleted(GroupCommand[GroupsCleaned]):
    """Topics are gone, and with them all offsets committed for them: names and ids."""

    topics: frozenset[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class DescribeGroup(GroupCommand[DescribedClassic]):
    """Any group, in the words of the classic protocol."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroup(GroupCommand[DescribedConsumer]):
    """A KIP-848 group."""

    group_id: str


AnyGroupCommand: TypeAlias = (
    Join
    | Sync
    | Beat
    | Leave
    | ConsumerBeat
    | CommitOffsets
    | CommitOffsetsInTransaction
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroup
    | TopicsDeleted
    | DescribeGroup
    | DescribeConsumerGroup
)
