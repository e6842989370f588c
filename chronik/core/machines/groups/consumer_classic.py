"""Members of a KIP-848 group that still speak the classic protocol: they join, sync, heartbeat and leave as ever.

A member's epoch is its generation. There is no leader: the coordinator assigns, and a member learns of a new assignment
by a response that says to rejoin. Its JoinGroup says what it uses, and is answered at once; SyncGroup brings what it
has now.
"""

from __future__ import annotations

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.groups import classic_join, migration
from chronik.core.machines.groups.answers import HeartbeatSeen, Joined, Left, MemberIdRequired, Synced
from chronik.core.machines.groups.commands import Beat, Join, Leave, Leaver, Sync
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    Current,
    MemberState,
    Subscriber,
)
from chronik.core.machines.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    named,
    read_subscription,
    write_assignment,
)
from chronik.core.machines.groups.consumer_step import ConsumerStep
from chronik.core.machines.groups.facts import GroupFact, TimerCleared, TimerSet
from chronik.core.machines.groups.timers import TimerKey, TimerKind, Timers
from chronik.core.machines.machine import Decision, Reply


def decide(
    ticket: int,
    command: Join | Sync | Beat | Leave,
    group: ConsumerGroup,
    timers: Timers,
    config: GroupConfig,
    now_ms: int,
    wall_ms: int | None,
) -> Decision[GroupFact]:
    match command:
        case Join():
            return _join(ticket, command, group, config, now_ms, wall_ms)
        case Sync():
            return _sync(ticket, command, group, timers, now_ms)
        case Beat():
            return _heartbeat(ticket, command, group, timers, now_ms)
        case Leave():
            return _leave(ticket, command, group, config, now_ms, wall_ms)


def _join(
    ticket: int, command: Join, group: ConsumerGroup, config: GroupConfig, now_ms: int, wall_ms: int | None
) -> Decision[GroupFact]:
    classic_join.check_session_timeout(command, config)
    holder = None if command.instance_id is None else group.static_member(command.instance_id)
    is_known = command.member_id in group.subscribers or holder is not None
    if len(group.subscribers) >= config.consumer_max_size and not is_known:
        raise Refused(Code.GROUP_MAX_SIZE_REACHED)
    if not group.supports_classic_protocols(command.protocol_type, command.protocols):
        raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)
    subscription = _subscription(command)
    if not command.member_id and command.instance_id is None and command.needs_known_member_id:
        # The id is not stored: a member that brings one which is not known is let in.
        return Decision([], [Reply(ticket, MemberIdRequired(command.new_member_id))])
    is_replaced = holder is not None and not command.member_id and group.subscribers[holder].classic is None
    if holder is not None and is_replaced and migration.can_downgrade(group, [holder], config):
        return _downgrade(ticket, command, group, holder, config, now_ms, wall_ms)
    step = ConsumerStep(group, command.member_id or command.new_member_id, command.topics, config, now_ms, [])
    before, current = _find_joining(step, command, holder)
    owned = migration.identified(subscription.owned, command.topics)
    after = step.change(before, _subscriber(command, subscription), current, owned)
    step.time(TimerKind.SESSION, command.session_timeout_ms)
    step.time(TimerKind.SYNC, command.rebalance_timeout_ms)
    step.clear(TimerKind.JOIN)
    protocol = command.protocols[0][0]
    joined = Joined(step.member_id, after.epoch, CONSUMER_PROTOCOL_TYPE, protocol, leader="")
    return Decision(step.facts, [Reply(ticket, joined)])


def _subscription(command: Join) -> Subscription:
    try:
        return read_subscription(command.protocols[0][1])
    except Corrupt as problem:
        raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, str(problem)) from problem


def _downgrade(
    ticket: int,
    command: Join,
    group: ConsumerGroup,
    replaced: str,
    config: GroupConfig,
    now_ms: int,
    wall_ms: int | None,
) -> Decision[GroupFact]:
    """The last member of the consumer protocol was static, and is back with the classic one: it joins a classic group.
    (Kafka lets it find its old assignment without a rebalance, though others may not have given up what is in it.)"""
    classic, facts = migration.downgrade(group, [replaced], config, now_ms, wall_ms)
    classic_join.join(classic, ticket, command)
    decision = classic.decision()
    decision.facts[:0] = facts
    return decision


def _find_joining(step: ConsumerStep, command: Join, holder: str | None) -> tuple[Subscriber | None, Current]:
    if command.instance_id is not None:
        if not command.member_id:
            return (None, Current()) if holder is None else step.take_over(holder)
        _check_static(command.member_id, holder)
    before = step.group.subscribers.get(step.member_id)
    if before is not None and before.classic is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"{step.member_id} uses the consumer protocol")
    return before, step.group.current(step.member_id)


def _subscriber(command: Join, subscription: Subscription) -> Subscriber:
    return Subscriber(
        instance_id=command.instance_id,
        rack_id=subscription.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=tuple(sorted(frozenset(subscription.topics))),
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        classic=ClassicMetadata(command.session_timeout_ms, command.protocols),
    )


def _check_static(member_id: str, holder: str | None) -> None:
    if holder is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID)
    if holder != member_id:
        raise Refused(Code.FENCED_INSTANCE_ID, f"Static member {member_id} was fenced by member {holder}.")


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[Subscriber, ClassicMetadata]:
    """The member, if the caller may speak for it."""
    if instance_id is not None:
        _check_static(member_id, group.static_member(instance_id))
    subscriber = group.subscribers.get(member_id)
    if subscriber is None or subscriber.classic is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"{member_id} is no member that uses the classic protocol")
    return subscriber, subscriber.classic


def _sync(ticket: int, command: Sync, group: ConsumerGroup, timers: Timers, now_ms: int) -> Decision[GroupFact]:
    subscriber, classic = _find(group, command.member_id, command.instance_id)
    current = group.current(command.member_id)
    if command.generation != current.epoch:
        raise Refused(Code.ILLEGAL_GENERATION)
    protocol, metadata = classic.protocols[0]
    for said, is_so in ((command.protocol_type, CONSUMER_PROTOCOL_TYPE), (command.protocol, protocol)):
        if said is not None and said != is_so:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)
    # One that has to give partitions up learns here which it keeps, gives up the others, and joins again by itself.
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        facts = _expect_to_join(group, command.member_id, subscriber, timers, now_ms)
        return Decision(facts, [Reply(ticket, Refused(Code.REBALANCE_IN_PROGRESS))])
    names = {shape.topic_id: name for name, shape in group.topics.items()}
    assignment = write_assignment(read_subscription(metadata).version, named(current.assigned, names))
    facts = [
        TimerCleared(TimerKey(TimerKind.SYNC, group.group_id, command.member_id)),
        _session(group, command.member_id, classic, now_ms),
    ]
    return Decision(facts, [Reply(ticket, Synced(CONSUMER_PROTOCOL_TYPE, protocol, assignment))])


def _heartbeat(ticket: int, command: Beat, group: ConsumerGroup, timers: Timers, now_ms: int) -> Decision[GroupFact]:
    subscriber, classic = _find(group, command.member_id, command.instance_id)
    current = group.current(command.member_id)
    if command.generation != current.epoch:
        raise Refused(Code.ILLEGAL_GENERATION)
    facts: list[GroupFact] = [_session(group, command.member_id, classic, now_ms)]
    if not _must_rejoin(group, command.member_id, current):
        return Decision(facts, [Reply(ticket, HeartbeatSeen())])
    facts += _expect_to_join(group, command.member_id, subscriber, timers, now_ms)
    return Decision(facts, [Reply(ticket, Refused(Code.REBALANCE_IN_PROGRESS))])


def _must_rejoin(group: ConsumerGroup, member_id: str, current: Current) -> bool:
    """Something changed, it has to give partitions up, or all it waited for has been given up by others."""
    if group.epoch > current.epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    wanted = group.target(member_id) - current.assigned
    return current.state is MemberState.UNRELEASED_PARTITIONS and not any(pair in group.owners for pair in wanted)


def _expect_to_join(
    group: ConsumerGroup, member_id: str, subscriber: Subscriber, timers: Timers, now_ms: int
) -> list[GroupFact]:
    """A response said to rejoin, and it has its rebalance timeout to do so, counted from the first time."""
    key = TimerKey(TimerKind.JOIN, group.group_id, member_id)
    return [] if key in timers else [TimerSet(key, now_ms + subscriber.rebalance_timeout_ms)]


def _session(group: ConsumerGroup, member_id: str, classic: ClassicMetadata, now_ms: int) -> TimerSet:
    return TimerSet(TimerKey(TimerKind.SESSION, group.group_id, member_id), now_ms + classic.session_timeout_ms)


def _leave(
    ticket: int, command: Leave, group: ConsumerGroup, config: GroupConfig, now_ms: int, wall_ms: int | None
) -> Decision[GroupFact]:
    gone: dict[str, None] = {}
    codes: list[Code] = []
    for leaver in command.members:
        try:
            member_id = _find_leaving(group, leaver)
            if member_id in gone:
                raise Refused(Code.UNKNOWN_MEMBER_ID)
        except Refused as refused:
            codes.append(refused.code)
        else:
            gone[member_id] = None
            codes.append(Code.NONE)
    decision = migration.remove(group, list(gone), config, now_ms, wall_ms) if gone else Decision()
    decision.replies.append(Reply(ticket, Left(tuple(codes))))
    return decision


def _find_leaving(group: ConsumerGroup, leaver: Leaver) -> str:
    """By an administrator, a static member is named by its instance id alone."""
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.static_member(leaver.instance_id) or ""
    _find(group, member_id, leaver.instance_id)
    return member_id
