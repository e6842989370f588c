"""What becomes of this node's groups, as the trace reports it: which member joins and leaves, which state a group is
in.

A machine's facts say what holds now, not what held before; that is remembered here while something is traced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import AnyGroupCommand, ConsumerBeat, Join, Leave
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.facts import (
    ClassicGroupChanged,
    ClassicGroupForgotten,
    ClassicGroupSaved,
    CurrentSet,
    GroupEpochSet,
    GroupFact,
    PendingOffsetSet,
    SubscriberSet,
    TargetEpochSet,
)
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.groups.offsets import stamp_ms
from chronik.core.machines.groups.pending_offsets import OffsetOwner, PendingOffset
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.observer import Observation, Observer

LEFT, EXPIRED, REPLACED = "left", "expired", "replaced"
ABORTED, OVERTAKEN = "aborted", "overtaken"


class KnownGroup(NamedTuple):
    """A group as it was last reported."""

    state: str
    generation: int
    members: dict[str, tuple[str, str]]  # their client ids and hosts


NEW = KnownGroup("Empty", 0, {})


def known(group: ClassicGroup | ConsumerGroup | None) -> KnownGroup:
    if group is None:
        return NEW
    if isinstance(group, ClassicGroup):
        members = {key: (one.client_id, plain(one.client_host)) for key, one in group.members.items()}
        return KnownGroup(str(group.state), group.generation, members)
    members = {key: (one.client_id, plain(one.client_host)) for key, one in group.subscribers.items()}
    return KnownGroup(group.state, group.epoch, members)


def plain(host: str) -> str:
    """Groups keep hosts as Kafka shows them, with a slash in front; the trace has them as everywhere else."""
    return host.removeprefix("/")


def offsets_decided(
    pending: Iterable[tuple[OffsetOwner, PendingOffset]], producer_id: int, is_commit: bool, observer: Observer
) -> None:
    """A transaction that brought these offsets has ended."""
    for owner, one in pending:
        if is_commit and not one.is_void:
            observer.offset_committed(owner, producer_id, one.committed.offset)
        else:
            observer.offset_dropped(owner, producer_id, one.committed.offset, OVERTAKEN if is_commit else ABORTED)


class GroupChanges:
    """Sees all that is asked of this node's groups and all that follows."""

    def __init__(self, observation: Observation, time: SteadyTime) -> None:
        self._observation = observation
        self._time = time
        self._known: dict[str, KnownGroup] = {}  # while something is traced
        self._epoch_since_ms: dict[str, int] = {}  # when a KIP-848 group came to its epoch, if that was here
        self._reason = EXPIRED  # why a member would go now

    def begin(self, machines: Iterable[GroupsMachine]) -> None:
        """From now on these are traced, if anything is: what they are now is where their stories begin."""
        if not self._observation.observer.is_observing:
            return
        for machine in machines:
            for group_id, group in machine.groups.items():
                self._known[group_id] = known(group)

    def lost(self, machine: GroupsMachine) -> None:
        """Its groups are another node's."""
        for group_id in machine.groups:
            self._known.pop(group_id, None)
            self._epoch_since_ms.pop(group_id, None)

    def asked(self, command: AnyGroupCommand) -> None:
        """This is about to be asked; `answered` when it has been."""
        observer = self._observation.observer
        if not observer.is_observing:
            return
        match command:
            case Join():
                self._reason = REPLACED
                member_id, host = command.member_id or command.new_member_id, plain(command.client_host)
                if command.member_id or not command.needs_known_member_id:  # else it is given its id, and comes again
                    observer.group_joined(command.group_id, member_id, command.client_id, host)
                observer.reader_heard(command.group_id, command.client_id, host)
            case ConsumerBeat():
                self._reason = LEFT if command.member_epoch < 0 else EXPIRED
                host = plain(command.client_host)
                if command.member_epoch == 0:
                    observer.group_joined(command.group_id, command.member_id, command.client_id, host)
                observer.reader_heard(command.group_id, command.client_id, host)
            case Leave():
                self._reason = LEFT

    def answered(self) -> None:
        self._reason = EXPIRED

    def applied(self, machine: GroupsMachine, facts: list[GroupFact]) -> None:
        """These facts hold now."""
        is_observed = self._observation.observer.is_observing
        changed: dict[str, None] = {}
        for fact in facts:
            if isinstance(fact, GroupEpochSet):
                if fact.epoch is None:
                    self._epoch_since_ms.pop(fact.group_id, None)
                else:
                    self._epoch_since_ms[fact.group_id] = self._time.now_ms()
            if not is_observed:
                continue
            if isinstance(fact, ClassicGroupChanged | ClassicGroupSaved):
                changed[fact.group.group_id] = None
            elif isinstance(fact, ClassicGroupForgotten | GroupEpochSet | SubscriberSet | TargetEpochSet | CurrentSet):
                changed[fact.group_id] = None
            elif isinstance(fact, PendingOffsetSet):
                owner = OffsetOwner(fact.group_id, fact.topic, fact.partition)
                self._observation.observer.offset_pending(owner, fact.producer_id, fact.committed.offset)
        for group_id in changed:
            self._tell(group_id, machine.groups.get(group_id))

    def _tell(self, group_id: str, group: ClassicGroup | ConsumerGroup | None) -> None:
        observer = self._observation.observer
        before, now = self._known.get(group_id, NEW), known(group)
        for member_id, (client_id, host) in before.members.items():
            if member_id not in now.members:
                observer.group_left(group_id, member_id, client_id, host, self._reason)
                if (client_id, host) not in now.members.values():
                    observer.reader_left(group_id, client_id, host)
        if (now.state, now.generation) != (before.state, before.generation):
            observer.group_changed(group_id, before.state, now.state, now.generation, len(now.members))
        if group is None:
            self._known.pop(group_id, None)
        else:
            self._known[group_id] = now

    def state_ms(self, group: ClassicGroup | ConsumerGroup) -> int:
        """How long a group has been in its state (a KIP-848 group: has had its epoch); -1 when that is not known."""
        now_ms = self._time.now_ms()
        if isinstance(group, ClassicGroup):
            since_ms, now_ms = group.since_ms, stamp_ms(now_ms, self._time.wall_ms())  # what it was stamped with
        else:
            since_ms = self._epoch_since_ms.get(group.group_id, -1)
        return -1 if since_ms < 0 else max(now_ms - since_ms, 0)
