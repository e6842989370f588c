"""A decision about one classic group while it is being worked out: the moves that a rebalance is made of.

A step starts from the group as it is, replaces its value move by move, and collects timers and answers; nothing
outside of it changes until its facts are applied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import Joined, JoinedMember, Synced
from chronik.core.machines.groups.classic_group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    InitialDelay,
    counted,
)
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.facts import ClassicGroupChanged, ClassicGroupSaved, GroupFact, TimerCleared, TimerSet
from chronik.core.machines.groups.offsets import stamp_ms
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import Decision, Reply


def _without(ids: tuple[str, ...], gone: str) -> tuple[str, ...]:
    if gone not in ids:
        return ids
    at = ids.index(gone)
    return ids[:at] + ids[at + 1 :]


class ClassicStep:
    """One classic group on its way from one value to the next."""

    def __init__(self, group: ClassicGroup, config: GroupConfig, now_ms: int, wall_ms: int | None = None) -> None:
        self.group = group
        self.config = config
        self.now_ms = now_ms
        self.stamp_ms = stamp_ms(now_ms, wall_ms)
        self._recorded = group
        self._facts: list[GroupFact] = []
        self._timers: dict[TimerKey, int | None] = {}
        self._replies: list[Reply] = []

    def decision(self) -> Decision[GroupFact]:
        facts = list(self._facts)
        if self.group is not self._recorded:
            facts.append(ClassicGroupChanged(self.group))
        for key, deadline_ms in self._timers.items():
            facts.append(TimerCleared(key) if deadline_ms is None else TimerSet(key, deadline_ms))
        return Decision(facts, list(self._replies))

    # Small moves

    def reply(self, ticket: int, answer: object) -> None:
        self._replies.append(Reply(ticket, answer))

    def put(self, member: ClassicMember) -> None:
        group = self.group
        old, supporters = group.members.get(member.member_id), group.supporters
        if old is None or old.protocols != member.protocols:
            supporters = counted(supporters, () if old is None else (old,), (member,))
        self.group = replace(group, members={**group.members, member.member_id: member}, supporters=supporters)

    def enter(self, state: ClassicState, **changes: Any) -> None:
        self.group = replace(self.group, state=state, since_ms=self.stamp_ms, **changes)

    def save(self) -> None:
        """Make the group as it is now durable. Only a group at rest is: Stable or Empty."""
        self._facts.append(ClassicGroupSaved(self.group))
        self._recorded = self.group

    def set_timer(self, kind: TimerKind, delay_ms: int, member_id: str = "") -> None:
        self._timers[TimerKey(kind, self.group.group_id, member_id)] = self.now_ms + delay_ms

    def clear_timer(self, kind: TimerKind, member_id: str = "") -> None:
        self._timers[TimerKey(kind, self.group.group_id, member_id)] = None

    def has_set(self, key: TimerKey) -> bool:
        """Whether this step has set the timer anew."""
        return self._timers.get(key) is not None

    def renew_session(self, member: ClassicMember) -> None:
        self.set_timer(TimerKind.SESSION, member.session_timeout_ms, member.member_id)

    # Members come and go

    def park_join(self, member: ClassicMember, ticket: int) -> None:
        """The member waits for the rebalance to end."""
        if member.join_ticket is not None:
            # It asked again, most likely over a new connection; the old request must not stay open for ever.
            self.reply(member.join_ticket, Refused(Code.REBALANCE_IN_PROGRESS))
        self.put(replace(member, join_ticket=ticket))

    def park_sync(self, member: ClassicMember, ticket: int) -> None:
        if member.sync_ticket is not None:
            self.reply(member.sync_ticket, Refused(Code.REBALANCE_IN_PROGRESS))
        self.put(replace(member, sync_ticket=ticket))

    def synced(self, member_id: str) -> None:
        """The member has asked for its assignment."""
        self.group = replace(self.group, pending_syncs=_without(self.group.pending_syncs, member_id))

    def add_pending(self, member_id: str, session_timeout_ms: int) -> None:
        self.group = replace(self.group, pending_joins=(*self.group.pending_joins, member_id))
        self.set_timer(TimerKind.SESSION, session_timeout_ms, member_id)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        group = self.group
        self.group = replace(
            group,
            members={**group.members, member.member_id: member},
            supporters=counted(group.supporters, (), (member,)),
            protocol_type=protocol_type if not group.members else group.protocol_type,
            leader=group.leader or member.member_id,
            pending_joins=_without(group.pending_joins, member.member_id),
            initial=replace(group.initial, member_added=True) if group.initial else None,
        )

    def remove(self, member_id: str) -> None:
        """Take a member (or one that was to come) out, and answer what it has parked."""
        group = self.group
        member = group.members.get(member_id)
        if member is not None:
            for ticket in (member.join_ticket, member.sync_ticket):
                if ticket is not None:
                    self.reply(ticket, Refused(Code.UNKNOWN_MEMBER_ID))
        left = dict(group.members)
        left.pop(member_id, None)
        self.group = replace(
            group,
            members=left,
            supporters=group.supporters if member is None else counted(group.supporters, (member,), ()),
            leader=next(iter(left), None) if group.leader == member_id else group.leader,
            pending_joins=_without(group.pending_joins, member_id),
            pending_syncs=_without(group.pending_syncs, member_id),
        )
        self.clear_timer(TimerKind.SESSION, member_id)

    # The phases of a rebalance

    def rebalance(self) -> None:
        """Something changed: start a rebalance, or see whether the one under way can end."""
        if self.group.state is ClassicState.PREPARING_REBALANCE:
            self.complete_join_if_ready()
        else:
            self.prepare_rebalance()

    def prepare_rebalance(self) -> None:
        if self.group.state is ClassicState.COMPLETING_REBALANCE:
            self._give_up_assignment()
        self.clear_timer(TimerKind.SYNC)
        if self.group.is_empty:
            delay_ms = self.config.initial_rebalance_delay_ms
            remaining_ms = max(self.group.rebalance_timeout_ms - delay_ms, 0)
            self.enter(ClassicState.PREPARING_REBALANCE, initial=InitialDelay(delay_ms, remaining_ms), pending_syncs=())
            if delay_ms > 0:
                self.set_timer(TimerKind.JOIN, delay_ms)
            else:
                self.complete_join()
            return
        self.enter(ClassicState.PREPARING_REBALANCE, initial=None, pending_syncs=())
        if self.group.has_all_joined:
            self.complete_join()
        else:
            self.set_timer(TimerKind.JOIN, self.group.rebalance_timeout_ms)

    def complete_join_if_ready(self) -> None:
        group = self.group
        if group.state is ClassicState.PREPARING_REBALANCE and group.initial is None and group.has_all_joined:
            self.complete_join()

    def join_time_is_up(self) -> None:
        initial = self.group.initial
        if initial is not None and initial.member_added and initial.remaining_ms > 0:
            delay_ms = min(self.config.initial_rebalance_delay_ms, initial.remaining_ms)
            remaining_ms = max(initial.remaining_ms - initial.delay_ms, 0)
            self.group = replace(self.group, initial=InitialDelay(delay_ms, remaining_ms))
            self.set_timer(TimerKind.JOIN, delay_ms)
        else:
            self.complete_join()

    def complete_join(self) -> None:
        """Every member of the next generation has joined: begin it."""
        self.clear_timer(TimerKind.JOIN)
        for member in list(self.group.members.values()):
            # A static member may come back without having rejoined; only its session timeout takes it out (KIP-345).
            if member.join_ticket is None and member.instance_id is None:
                self.remove(member.member_id)
        if not self.group.members:
            self.enter(
                ClassicState.EMPTY,
                generation=self.group.generation + 1,
                protocol=None,
                leader=None,
                pending_syncs=(),
                initial=None,
            )
            self.save()
            return
        if not self._elect_leader():
            # Only static members are left, and none of them has rejoined: wait for them or for their sessions to end.
            self.set_timer(TimerKind.JOIN, self.group.rebalance_timeout_ms)
            return
        self.enter(
            ClassicState.COMPLETING_REBALANCE,
            generation=self.group.generation + 1,
            protocol=self.group.select_protocol(),
            pending_syncs=tuple(self.group.members),
            initial=None,
        )
        self.set_timer(TimerKind.SYNC, self.group.rebalance_timeout_ms)
        self._answer_joins()

    def _elect_leader(self) -> bool:
        """The leader stays if it has joined; else the first that has joined takes over."""
        joined = [m.member_id for m in self.group.members.values() if m.join_ticket is not None]
        if not joined:
            return False
        if self.group.leader not in joined:
            self.group = replace(self.group, leader=joined[0])
        return True

    def _answer_joins(self) -> None:
        members = dict(self.group.members)
        for member in self.group.members.values():
            if member.join_ticket is not None:
                self.reply(member.join_ticket, self.joined(member.member_id))
            self.renew_session(member)
            members[member.member_id] = replace(member, join_ticket=None, is_new=False)
        self.group = replace(self.group, members=members)

    def joined(self, member_id: str) -> Joined:
        group = self.group
        members: tuple[JoinedMember, ...] = ()
        if group.leader == member_id:
            members = tuple(
                JoinedMember(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values()
            )
        return Joined(member_id, group.generation, group.protocol_type, group.protocol, group.leader or "", members)

    def assign(self, assignments: dict[str, bytes]) -> None:
        """The leader has spoken: the generation is stable."""
        members = dict(self.group.members)
        for member in self.group.members.values():
            assignment = assignments.get(member.member_id, b"")
            if member.sync_ticket is not None:
                self.reply(member.sync_ticket, Synced(self.group.protocol_type, self.group.protocol, assignment))
                self.renew_session(member)
            members[member.member_id] = replace(member, assignment=assignment, sync_ticket=None)
        self.enter(ClassicState.STABLE, members=members)
        self.save()

    def _give_up_assignment(self) -> None:
        """A rebalance begins before the last one has ended: those that wait for their assignment must join again."""
        members = dict(self.group.members)
        for member in self.group.members.values():
            if member.sync_ticket is not None:
                self.reply(member.sync_ticket, Refused(Code.REBALANCE_IN_PROGRESS))
                self.renew_session(member)
            members[member.member_id] = replace(member, sync_ticket=None)
        self.group = replace(self.group, members=members)
