"""A KIP-848 group: the coordinator assigns, members follow one heartbeat at a time.

Three epochs tell how far everything is. The *group epoch* rises when members, subscriptions or topics change; the
*target epoch* is the group epoch that the target assignment was made for; a *member epoch* reaches the target epoch
when the member has given up what it must not keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import TypeAlias

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import TopicIdPartitions
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE

LEAVE_EPOCH = -1
LEAVE_AND_RETURN_EPOCH = -2  # of a static member

# Topic id and partition. Sets make reconciliation plain set algebra; sort before you walk over one.
TopicIdPartition: TypeAlias = tuple[bytes, int]
Partitions: TypeAlias = frozenset[TopicIdPartition]
NONE: Partitions = frozenset()


def by_topic(partitions: Partitions) -> tuple[TopicIdPartitions, ...]:
    grouped = groupby(sorted(partitions), key=lambda pair: pair[0])
    return tuple(TopicIdPartitions(topic_id, tuple(number for _, number in pairs)) for topic_id, pairs in grouped)


def flat(topics: Iterable[tuple[bytes, tuple[int, ...]]]) -> Partitions:
    return frozenset((topic_id, number) for topic_id, numbers in topics for number in numbers)


class MemberState(IntEnum):
    """How a member stands to its target assignment. The numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has to give partitions up before anything else
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that others have yet to give up


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # in the member's order of preference; never empty


@dataclass(frozen=True, slots=True)
class Subscriber:
    """What a member said about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None  # None: it speaks the consumer protocol


@dataclass(frozen=True, slots=True)
class Current:
    """Where a member is: its epoch, what it has, and what it has yet to give up."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NONE
    revoking: Partitions = NONE

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class ConsumerGroup:
    """One KIP-848 group. Only the machine's `apply` changes it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.topics: Mapping[str, TopicShape] = {}
        self.subscribers: dict[str, Subscriber] = {}
        # How many members subscribe to a name or a regex: heartbeats look here instead of at every member.
        self.names: dict[str, int] = {}
        self.regexes: dict[str, int] = {}
        # Members that speak the classic protocol, and how many of those have each of its protocols.
        self.classic_count = 0
        self.classic_protocols: dict[str, int] = {}
        self.targets: dict[str, Partitions] = {}
        self.currents: dict[str, Current] = {}
        # Who holds a partition, whether to keep or to give up. Invariant: at most one member does.
        self.owners: dict[TopicIdPartition, str] = {}

    @property
    def is_empty(self) -> bool:
        return not self.subscribers

    @property
    def state(self) -> str:
        if self.is_empty:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self.current(member_id).is_reconciled_to(self.target_epoch) for member_id in self.subscribers):
            return "Stable"
        return "Reconciling"

    def current(self, member_id: str) -> Current:
        return self.currents.get(member_id, Current())

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NONE)

    def static_member(self, instance_id: str) -> str | None:
        return next((key for key, member in self.subscribers.items() if member.instance_id == instance_id), None)

    def assignor(self, default: str, subscribers: Mapping[str, Subscriber] | None = None) -> str:
        """The one most members ask for; the default when none does."""
        votes: dict[str, int] = {}
        for member in (self.subscribers if subscribers is None else subscribers).values():
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name]) if votes else default

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or (topic in self.topics and bool(self.regexes))

    def supports_classic_protocols(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """May a member with these classic protocols come in? One of them has to be common to all classic members."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        return any(self.classic_protocols.get(name, 0) == self.classic_count for name, _ in protocols)

    def check_epoch(self, member_id: str, epoch: int) -> None:
        """May this member commit or fetch offsets at this epoch? To a classic member its epoch is a generation."""
        subscriber = self.subscribers.get(member_id)
        if subscriber is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {self.group_id}")
        if epoch != self.current(member_id).epoch:
            code = Code.STALE_MEMBER_EPOCH if subscriber.classic is None else Code.ILLEGAL_GENERATION
            raise Refused(code, f"the member is at epoch {self.current(member_id).epoch}")

    # Changes, called by apply only

    def set_subscriber(self, member_id: str, subscriber: Subscriber | None) -> None:
        old = self.subscribers.get(member_id)
        if old is not None:
            self._count(old, -1)
        if subscriber is None:
            self.subscribers.pop(member_id, None)
        else:
            self.subscribers[member_id] = subscriber
            self._count(subscriber, 1)

    def _count(self, subscriber: Subscriber, step: int) -> None:
        counted = [(self.names, name) for name in subscriber.topics]
        if subscriber.regex is not None:
            counted.append((self.regexes, subscriber.regex))
        if subscriber.classic is not None:
            self.classic_count += step
            counted += [(self.classic_protocols, name) for name in dict(subscriber.classic.protocols)]
        for counts, key in counted:
            counts[key] = counts.get(key, 0) + step
            if not counts[key]:
                del counts[key]

    def set_target(self, member_id: str, partitions: Partitions | None) -> None:
        if partitions is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = partitions

    def set_current(self, member_id: str, current: Current | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            for pair in sorted(old.assigned | old.revoking):
                if self.owners.get(pair) == member_id:
                    del self.owners[pair]
        if current is not None:
            self.currents[member_id] = current
            for pair in sorted(current.assigned | current.revoking):
                self.owners[pair] = member_id
