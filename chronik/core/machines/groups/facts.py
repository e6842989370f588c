"""What can become true in a groups machine. A durable fact is one record in `__consumer_offsets` (see records.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_group import Current, Partitions, Subscriber
from chronik.core.machines.groups.offsets import CommittedOffset
from chronik.core.machines.groups.timers import TimerKey


@dataclass(frozen=True, slots=True)
class ClassicGroupChanged:
    """A classic group is on its way: joins and syncs under way do not survive us."""

    durable: ClassVar[bool] = False
    group: ClassicGroup


@dataclass(frozen=True, slots=True)
class ClassicGroupSaved:
    """A classic group has come to rest: Stable, or Empty."""

    durable: ClassVar[bool] = True
    group: ClassicGroup


@dataclass(frozen=True, slots=True)
class ClassicGroupForgotten:
    durable: ClassVar[bool] = True
    group_id: str


@dataclass(frozen=True, slots=True)
class OffsetSet:
    """The committed offset of a partition; None forgets it."""

    durable: ClassVar[bool] = True
    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class PendingOffsetSet:
    """An offset that counts when its producer's transaction commits: the record is part of that transaction."""

    durable: ClassVar[bool] = True
    producer_id: int
    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset


@dataclass(frozen=True, slots=True)
class PendingOffsetsDecided:
    """The producer's transaction has ended, as the marker in the log says: its offsets count from now on, or are gone.
    The marker is the record."""

    durable: ClassVar[bool] = False
    producer_id: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class GroupEpochSet:
    """A KIP-848 group exists, at this epoch; None when it is gone."""

    durable: ClassVar[bool] = True
    group_id: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class GroupTopicsSet:
    """The topics a KIP-848 group subscribes to, as they were when its epoch was last raised for them."""

    durable: ClassVar[bool] = True
    group_id: str
    topics: Mapping[str, TopicShape] | None


@dataclass(frozen=True, slots=True)
class SubscriberSet:
    """A member of a KIP-848 group and what it wants; None when it is gone."""

    durable: ClassVar[bool] = True
    group_id: str
    member_id: str
    subscriber: Subscriber | None


@dataclass(frozen=True, slots=True)
class TargetEpochSet:
    """The group epoch that the target assignment was made for."""

    durable: ClassVar[bool] = True
    group_id: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetSet:
    """What a member is to have in the end."""

    durable: ClassVar[bool] = True
    group_id: str
    member_id: str
    partitions: Partitions | None


@dataclass(frozen=True, slots=True)
class CurrentSet:
    """What a member has now, and what it has yet to give up."""

    durable: ClassVar[bool] = True
    group_id: str
    member_id: str
    current: Current | None


@dataclass(frozen=True, slots=True)
class TimerSet:
    durable: ClassVar[bool] = False
    key: TimerKey
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class TimerCleared:
    durable: ClassVar[bool] = False
    key: TimerKey


GroupFact: TypeAlias = (
    ClassicGroupChanged
    | ClassicGroupSaved
    | ClassicGroupForgotten
    | OffsetSet
    | PendingOffsetSet
    | PendingOffsetsDecided
    | GroupEpochSet
    | GroupTopicsSet
    | SubscriberSet
    | TargetEpochSet
    | TargetSet
    | CurrentSet
    | TimerSet
    | TimerCleared
)
