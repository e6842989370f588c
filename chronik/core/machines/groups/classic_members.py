"""What a member of a classic group does besides joining: sync, heartbeat, leave, or fall silent."""

from __future__ import annotations

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import HeartbeatSeen, Left, Synced
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicState
from chronik.core.machines.groups.classic_step import ClassicStep
from chronik.core.machines.groups.commands import Beat, Leave, Leaver, Sync
from chronik.core.machines.groups.timers import TimerKey, TimerKind


def sync(step: ClassicStep, ticket: int, command: Sync) -> None:
    """Give the member its assignment: now, or when the leader has brought it."""
    group = step.group
    member = group.check_member(command.member_id, command.instance_id)
    if command.generation != group.generation:
        raise Refused(Code.ILLEGAL_GENERATION)
    for said, is_so in ((command.protocol_type, group.protocol_type), (command.protocol, group.protocol)):
        if said is not None and is_so is not None and said != is_so:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise Refused(Code.REBALANCE_IN_PROGRESS)
    if command.member_id in group.pending_syncs:
        step.synced(command.member_id)
        if not step.group.pending_syncs:
            step.clear_timer(TimerKind.SYNC)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        step.park_sync(member, ticket)
        if group.leader == command.member_id:
            step.assign(dict(command.assignments))
    else:
        step.reply(ticket, Synced(group.protocol_type, group.protocol, member.assignment))


def heartbeat(step: ClassicStep, ticket: int, command: Beat) -> None:
    group = step.group
    member = group.check_member(command.member_id, command.instance_id)
    if command.generation != group.generation:
        raise Refused(Code.ILLEGAL_GENERATION)
    step.renew_session(member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        step.reply(ticket, Refused(Code.REBALANCE_IN_PROGRESS))
    else:
        step.reply(ticket, HeartbeatSeen())


def leave(step: ClassicStep, ticket: int, command: Leave) -> None:
    """Let members go, all in one rebalance."""
    codes = tuple(_leave_one(step, leaver) for leaver in command.members)
    if Code.NONE in codes and not step.group.is_empty:
        step.rebalance()
    step.reply(ticket, Left(codes))


def _leave_one(step: ClassicStep, leaver: Leaver) -> Code:
    group = step.group
    if not leaver.member_id:
        # An administrator removes a static member by the name it was given.
        member = group.static_member(leaver.instance_id) if leaver.instance_id is not None else None
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        step.remove(member.member_id)
    elif leaver.member_id in group.pending_joins:
        step.remove(leaver.member_id)
    else:
        try:
            group.check_member(leaver.member_id, leaver.instance_id)
        except Refused as refused:
            return refused.code
        step.remove(leaver.member_id)
    return Code.NONE


def expire(step: ClassicStep, key: TimerKey) -> None:
    """A timer of this group has fired."""
    step.clear_timer(key.kind, key.member_id)
    match key.kind:
        case TimerKind.SESSION:
            _expire_session(step, key.member_id)
        case TimerKind.JOIN if step.group.state is ClassicState.PREPARING_REBALANCE:
            step.join_time_is_up()
        case TimerKind.SYNC if step.group.pending_syncs:
            for member_id in step.group.pending_syncs:
                step.remove(member_id)
            step.prepare_rebalance()
        case _:
            pass


def _expire_session(step: ClassicStep, member_id: str) -> None:
    group = step.group
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending_joins:
            step.remove(member_id)
            step.complete_join_if_ready()
        return
    if not member.is_new and (member.join_ticket is not None or member.sync_ticket is not None):
        return  # it waits for us, not we for it; its session starts anew with our answer
    step.remove(member_id)
    step.rebalance()


def start_after_replay(group: ClassicGroup, step: ClassicStep) -> None:
    """The members of a group that was read back from the log: each has one session timeout to show itself."""
    for member in group.members.values():
        step.renew_session(member)
    was_downgraded = bool(group.members) and group.leader is None  # and never came to the rebalance that follows
    if was_downgraded or len(group.members) > step.config.max_size:
        step.prepare_rebalance()
