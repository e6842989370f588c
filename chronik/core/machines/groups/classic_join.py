"""JoinGroup: who may come in, and what its coming means for the group."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import MemberIdRequired
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from chronik.core.machines.groups.classic_step import ClassicStep
from chronik.core.machines.groups.commands import Join
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.timers import TimerKind

PENDING_MIN = 100  # so many may come at one time, however small the group is to be


def join(step: ClassicStep, ticket: int, command: Join) -> None:
    """Let a member join. It is answered now or when the rebalance has all it needs."""
    group = step.group
    check_session_timeout(command, step.config)
    if not _has_room(group, command, step.config.max_size):
        # A group that has become too large (its limit was lowered) sheds those that rejoin last.
        if command.member_id in group.members:
            step.remove(command.member_id)
        step.reply(ticket, Refused(Code.GROUP_MAX_SIZE_REACHED))
    elif not group.supports_protocols(command.protocol_type, command.protocols):
        raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)
    elif not command.member_id:
        _join_without_id(step, ticket, command)
    elif command.member_id in group.pending_joins:
        if command.instance_id is not None:
            raise Refused(Code.UNKNOWN_MEMBER_ID)  # ids are given out ahead to dynamic members only
        _add(step, ticket, command, command.member_id)
    else:
        member = group.check_member(command.member_id, command.instance_id)
        _rejoin(step, ticket, command, member)


def check_session_timeout(command: Join, config: GroupConfig) -> None:
    if not config.min_session_timeout_ms <= command.session_timeout_ms <= config.max_session_timeout_ms:
        raise Refused(Code.INVALID_SESSION_TIMEOUT)


def _has_room(group: ClassicGroup, command: Join, max_size: int) -> bool:
    member = group.members.get(command.member_id)
    if group.is_empty:
        return True
    if command.instance_id is not None and group.static_member(command.instance_id) is not None:
        return True  # it takes its own place again (Kafka would turn it away from a full group)
    if len(group.members) < max_size:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Those that wait count, not all members: members that do not rejoin will be gone when the rebalance ends.
        waiting = sum(1 for other in group.members.values() if other.join_ticket is not None)
        return (member is not None and member.join_ticket is not None) or waiting < max_size
    return member is not None


def _join_without_id(step: ClassicStep, ticket: int, command: Join) -> None:
    if command.instance_id is not None:
        holder = step.group.static_member(command.instance_id)
        if holder is not None:
            _replace_static(step, ticket, command, holder)
        else:
            _add(step, ticket, command, command.new_member_id)
    elif command.needs_known_member_id:
        # Ids that are never used wait for a session timeout. Kafka gives out any number of them.
        if len(step.group.pending_joins) >= max(step.config.max_size, PENDING_MIN):
            raise Refused(Code.GROUP_MAX_SIZE_REACHED)
        # A client whose join is answered late may try again: with an id in hand it stays one member (KIP-394).
        step.add_pending(command.new_member_id, command.session_timeout_ms)
        step.reply(ticket, MemberIdRequired(command.new_member_id))
    else:
        _add(step, ticket, command, command.new_member_id)


def _add(step: ClassicStep, ticket: int, command: Join, member_id: str) -> None:
    member = ClassicMember(
        member_id=member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
        is_new=True,
        join_ticket=ticket,
    )
    step.add(member, command.protocol_type)
    # It cannot heartbeat while its join is parked, and we cannot see it disconnect: it may wait only so long.
    step.set_timer(TimerKind.SESSION, step.config.new_member_join_timeout_ms, member_id)
    step.rebalance()


def _update(step: ClassicStep, ticket: int, command: Join, member: ClassicMember) -> None:
    updated = replace(
        member,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
    )
    step.park_join(updated, ticket)


def _rejoin(step: ClassicStep, ticket: int, command: Join, member: ClassicMember) -> None:
    """A member of the group joins (again)."""
    group = step.group
    unchanged = member.protocols == command.protocols
    leads = group.leader == member.member_id
    match group.state:
        case ClassicState.COMPLETING_REBALANCE if unchanged:
            # It most likely lost our answer: tell it again.
            step.reply(ticket, step.joined(member.member_id))
        case ClassicState.STABLE if unchanged and not leads:
            step.reply(ticket, step.joined(member.member_id))
        case ClassicState.EMPTY:
            raise Refused(Code.UNKNOWN_MEMBER_ID)
        case _:
            # A leader that joins again asks for a rebalance: it has seen something change, such as topics.
            _update(step, ticket, command, member)
            step.rebalance()


def _replace_static(step: ClassicStep, ticket: int, command: Join, old: ClassicMember) -> None:
    """A static member is back under a new member id (KIP-345). A client that still uses the old id is fenced."""
    group = step.group
    old_leader = group.leader or ""
    for parked in (old.join_ticket, old.sync_ticket):
        if parked is not None:
            step.reply(parked, Refused(Code.FENCED_INSTANCE_ID))
    new = replace(old, member_id=command.new_member_id, join_ticket=None, sync_ticket=None)
    members = {(new if m is old else m).member_id: (new if m is old else m) for m in group.members.values()}
    step.group = replace(
        group,
        members=members,
        leader=new.member_id if group.leader == old.member_id else group.leader,
        pending_syncs=tuple(new.member_id if id == old.member_id else id for id in group.pending_syncs),
    )
    step.clear_timer(TimerKind.SESSION, old.member_id)
    step.renew_session(new)
    _update(step, ticket, command, new)
    if group.state is not ClassicState.STABLE:
        # In CompletingRebalance the leader may already be assigning to the old id: the new one would get nothing.
        step.rebalance()
    elif step.group.select_protocol() != group.protocol:
        step.rebalance()
    else:
        _return_quietly(step, ticket, command, new.member_id, old_leader)


def _return_quietly(step: ClassicStep, ticket: int, command: Join, member_id: str, old_leader: str) -> None:
    """No rebalance: the static member finds its assignment as it left it."""
    step.put(replace(step.group.members[member_id], join_ticket=None))
    step.save()
    joined = step.joined(member_id)
    if not command.may_skip_assignment:
        # An older client that learned it leads would assign anew, and no member would use it: name the old id as
        # leader.
        joined = replace(joined, leader=old_leader, members=())
    elif joined.leader == member_id:
        joined = replace(joined, skip_assignment=True)
    step.reply(ticket, joined)
