"""A classic group as a value: the members choose a leader's assignment among themselves, we keep time and order.

    Empty --join--> PreparingRebalance --all joined, or time is up--> CompletingRebalance --leader syncs--> Stable
      ^                 |  ^  ^                                              |                                |
      +--- no members --+  |  +------ join, leave, member lost, sync late ---+                                |
                           +------------- join, leave, member lost -------------------------------------------+

Values never change: a decision makes a new one, and a fact puts it in place of the old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, read_subscription


class ClassicState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """One member, and the tickets of the requests it has parked here."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # in the member's order of preference
    assignment: bytes = b""  # the last one it was given
    is_new: bool = False  # has not been in a generation yet: cannot heartbeat while its join is parked
    join_ticket: int | None = None
    sync_ticket: int | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """A group that was empty waits a little for others to join as well (KIP-134)."""

    delay_ms: int
    remaining_ms: int
    member_added: bool = False


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """The whole of a classic group."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str | None = None  # None: only offsets were ever committed here
    protocol: str | None = None
    leader: str | None = None
    since_ms: int = -1  # when it came into this state
    members: Mapping[str, ClassicMember] = field(default_factory=dict)  # in order of joining
    pending_joins: tuple[str, ...] = ()  # member ids given out, not yet come back
    pending_syncs: tuple[str, ...] = ()  # members of this generation that have not asked for their assignment
    initial: InitialDelay | None = None  # while the first rebalance of an empty group is held back
    # How many members have each protocol: counted as they come and go, since at each join all members would be asked.
    supporters: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.members and not self.supporters:  # as it was read from the log
            object.__setattr__(self, "supporters", counted({}, (), self.members.values()))

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending_joins and all(m.join_ticket is not None for m in self.members.values())

    def static_member(self, instance_id: str) -> ClassicMember | None:
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def supports_protocols(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """May a member with these protocols come in?"""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        if not self.members:  # the last one left while another was about to join: it has no other member to agree with
            return bool(protocols)
        return any(self.supporters.get(name) == len(self.members) for name, _ in protocols)

    def shared_protocols(self) -> list[str]:
        """Those every member supports."""
        return [name for name, count in self.supporters.items() if count == len(self.members)]

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; most votes win, then the earliest vote."""
        shared = self.shared_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            favourite = next(name for name, _ in member.protocols if name in shared)
            votes[favourite] = votes.get(favourite, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member, if the caller may speak for it."""
        if instance_id is not None:
            holder = self.static_member(instance_id)
            if holder is None:
                raise Refused(Code.UNKNOWN_MEMBER_ID)
            if holder.member_id != member_id:
                raise Refused(Code.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID)
        return member

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """May these offsets be committed?"""
        # Generation -1 comes from an admin client or a consumer that assigns partitions by itself.
        if generation < 0 and self.is_empty:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID)
        self.check_member(member_id, instance_id)
        if generation != self.generation:
            raise Refused(Code.ILLEGAL_GENERATION)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            raise Refused(Code.REBALANCE_IN_PROGRESS)

    def check_commit_in_transaction(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """May a producer commit these offsets for a member (KIP-447)? A rebalance that is not over does not matter:
        the member is of the newest generation."""
        if generation < 0 and self.is_empty:
            return
        self.check_member(member_id, instance_id)
        if generation != self.generation:
            raise Refused(Code.ILLEGAL_GENERATION)

    def subscribed_topics(self) -> frozenset[str] | None:
        """What its consumers subscribe to; None when we cannot know (no consumers, or unreadable metadata)."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        try:
            return frozenset(
                topic
                for m in self.members.values()
                for topic in read_subscription(m.metadata(self.protocol or "")).topics
            )
        except Corrupt:
            return None

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self.subscribed_topics()
        if topics is None:
            # Consumers whose metadata is unreadable may use any topic; other members use none that we know of.
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics


def counted(
    supporters: Mapping[str, int], gone: Iterable[ClassicMember], come: Iterable[ClassicMember]
) -> dict[str, int]:
    """How many have each protocol when these have gone and those have come."""
    counts = dict(supporters)
    for members, change in ((gone, -1), (come, 1)):
        for member in members:
            for name in dict(member.protocols):  # a member may name one twice
                counts[name] = counts.get(name, 0) + change
                if not counts[name]:
                    del counts[name]
    return counts
