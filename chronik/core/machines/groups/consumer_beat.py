"""ConsumerGroupHeartbeat: a member of a KIP-848 group joins, stays, changes its mind or leaves."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups import migration
from chronik.core.machines.groups.answers import ConsumerBeatSeen
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import ConsumerBeat
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import (
    LEAVE_AND_RETURN_EPOCH,
    LEAVE_EPOCH,
    NONE,
    ConsumerGroup,
    Current,
    MemberState,
    Subscriber,
    by_topic,
    flat,
)
from chronik.core.machines.groups.consumer_step import ConsumerStep
from chronik.core.machines.groups.facts import ClassicGroupForgotten, CurrentSet, GroupFact, TimerCleared, TimerSet
from chronik.core.machines.groups.subscriptions import check_regex
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import Decision, Reply


def beat(
    ticket: int,
    command: ConsumerBeat,
    group: ClassicGroup | ConsumerGroup | None,
    config: GroupConfig,
    now_ms: int,
    wall_ms: int | None = None,
) -> Decision[GroupFact]:
    _check_request(command, config)
    decision = Decision[GroupFact]()
    if group is None or (isinstance(group, ClassicGroup) and group.is_empty):
        if command.member_epoch != 0:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"Consumer group {command.group_id} not found.")
        if group is not None:
            decision.facts.append(ClassicGroupForgotten(command.group_id))
        group = ConsumerGroup(command.group_id)
    if isinstance(group, ClassicGroup):
        group, decision = _upgrade(command, group, config, now_ms)
    if command.member_epoch in (LEAVE_EPOCH, LEAVE_AND_RETURN_EPOCH):
        return _leave(ticket, command, group, config, now_ms, wall_ms)
    answer = _Heartbeat(command, group, config, now_ms, decision.facts).run()
    decision.replies.append(Reply(ticket, answer))
    return decision


def _upgrade(
    command: ConsumerBeat, group: ClassicGroup, config: GroupConfig, now_ms: int
) -> tuple[ConsumerGroup, Decision[GroupFact]]:
    """The first member of the consumer protocol joins a classic group that has members."""
    migration.check_upgrade(group, config)
    if command.member_epoch != 0:
        # The group was downgraded when it gave this member up. Kafka answers GROUP_ID_NOT_FOUND, which is final for a
        # consumer; so it joins again instead.
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"{command.member_id} is not a member of {command.group_id}")
    return migration.upgrade(group, command.topics, now_ms)


def _check_request(command: ConsumerBeat, config: GroupConfig) -> None:
    epoch = command.member_epoch
    if not command.member_id:
        raise Refused(Code.INVALID_REQUEST, "MemberId can't be empty.")
    if command.instance_id == "" or command.rack_id == "":
        raise Refused(Code.INVALID_REQUEST, "InstanceId and RackId can't be empty.")
    if epoch == 0:
        if command.rebalance_timeout_ms < 0:
            raise Refused(Code.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
        if command.owned is None or command.owned:
            raise Refused(Code.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
        # Empty is as good as set: the client's own pattern may match nothing yet.
        if command.subscribed_topics is None and command.subscribed_regex is None:
            raise Refused(Code.INVALID_REQUEST, "Either SubscribedTopicNames or SubscribedTopicRegex must be set.")
    elif epoch == LEAVE_AND_RETURN_EPOCH and command.instance_id is None:
        raise Refused(Code.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_AND_RETURN_EPOCH:
        raise Refused(Code.INVALID_REQUEST, "MemberEpoch is invalid.")
    if command.assignor is not None and command.assignor not in config.consumer_assignors:
        supported = ", ".join(config.consumer_assignors)
        raise Refused(
            Code.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.assignor} is not supported. Supported assignors: {supported}.",
        )
    if command.subscribed_regex:
        check_regex(command.subscribed_regex)


class _Heartbeat:
    """One heartbeat being worked out."""

    def __init__(
        self, command: ConsumerBeat, group: ConsumerGroup, config: GroupConfig, now_ms: int, facts: list[GroupFact]
    ) -> None:
        self.command = command
        self.group = group
        self.config = config
        self.member_id = command.member_id
        self.step = ConsumerStep(group, command.member_id, command.topics, config, now_ms, facts)

    def run(self) -> ConsumerBeatSeen:
        before, current = self._find_member()
        owned = None if self.command.owned is None else flat(self.command.owned)
        begins_anew = self.command.member_epoch == 0
        after = self.step.change(before, self._subscriber(before), current, owned, begins_anew=begins_anew)
        self.step.time(TimerKind.SESSION, self.config.consumer_session_timeout_ms)
        wants_all = self._is_full() or after.assigned != current.assigned
        return ConsumerBeatSeen(
            self.member_id,
            after.epoch,
            self.config.consumer_heartbeat_interval_ms,
            by_topic(after.assigned) if wants_all else None,
        )

    def _is_full(self) -> bool:
        """A full heartbeat: the member joins, or recovers from an error. Then the response is full too."""
        c = self.command
        has_subscription = c.subscribed_topics is not None or c.subscribed_regex is not None
        return c.member_epoch == 0 or (c.rebalance_timeout_ms >= 0 and has_subscription and c.owned is not None)

    def _find_member(self) -> tuple[Subscriber | None, Current]:
        group, command = self.group, self.command
        if command.instance_id is not None:
            holder = group.static_member(command.instance_id)
            if command.member_epoch == 0 and holder is not None and holder != self.member_id:
                return self._take_over(holder)
            if command.member_epoch > 0:
                _check_static(command, holder)
        subscriber = group.subscribers.get(self.member_id)
        if subscriber is None:
            if command.member_epoch != 0:
                raise Refused(Code.UNKNOWN_MEMBER_ID, f"{self.member_id} is not a member of {group.group_id}")
            if len(group.subscribers) >= self.config.consumer_max_size:
                raise Refused(Code.GROUP_MAX_SIZE_REACHED)
            return None, Current()
        current = group.current(self.member_id)
        if command.member_epoch == 0:
            # It begins anew and says it has nothing: see `rejoined`. (Past its first epoch, Kafka would fence it until
            # its session ends.)
            return subscriber, Current()
        if subscriber.classic is not None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"{self.member_id} uses the classic protocol")
        self._check_epoch(current)
        return subscriber, current

    def _check_epoch(self, current: Current) -> None:
        epoch = self.command.member_epoch
        if epoch == current.epoch:
            return
        # Our last answer may have been lost: a member one step behind may go on, if it has nothing that it should not.
        owned = None if self.command.owned is None else flat(self.command.owned)
        if epoch != current.previous_epoch or owned is None or not owned <= current.assigned:
            known = f"the member epoch is {current.epoch}, not {epoch}"
            raise Refused(Code.FENCED_MEMBER_EPOCH, f"{known}. The member must abandon all its partitions and rejoin.")

    def _take_over(self, old_id: str) -> tuple[Subscriber, Current]:
        """A static member is back under a new id. Where both speak the consumer protocol, the old one has to have left
        for a while; a classic one does not say that it will be back."""
        is_released = self.group.current(old_id).epoch == LEAVE_AND_RETURN_EPOCH
        if not is_released and self.group.subscribers[old_id].classic is None:
            raise Refused(Code.UNRELEASED_INSTANCE_ID, f"the instance id is owned by member {old_id}")
        return self.step.take_over(old_id)

    def _subscriber(self, before: Subscriber | None) -> Subscriber:
        """What the member wants now."""
        c, old = self.command, before or Subscriber()
        regex = old.regex if c.subscribed_regex is None else (c.subscribed_regex or None)
        names = old.topics if c.subscribed_topics is None else tuple(sorted(frozenset(c.subscribed_topics)))
        return Subscriber(
            instance_id=c.instance_id or old.instance_id,
            rack_id=c.rack_id or old.rack_id,
            client_id=c.client_id,
            client_host=c.client_host,
            topics=names,
            regex=regex,
            rebalance_timeout_ms=c.rebalance_timeout_ms if c.rebalance_timeout_ms >= 0 else old.rebalance_timeout_ms,
            assignor=c.assignor or old.assignor,
        )


def _check_static(command: ConsumerBeat, holder: str | None) -> None:
    if holder is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"Instance id {command.instance_id} is unknown.")
    if holder != command.member_id:
        raise Refused(Code.FENCED_INSTANCE_ID, f"Static member {command.member_id} was fenced by member {holder}.")


def _leave(
    ticket: int, command: ConsumerBeat, group: ConsumerGroup, config: GroupConfig, now_ms: int, wall_ms: int | None
) -> Decision[GroupFact]:
    if command.instance_id is not None:
        _check_static(command, group.static_member(command.instance_id))
    elif command.member_id not in group.subscribers:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"{command.member_id} is not a member of {group.group_id}")
    answer = ConsumerBeatSeen(command.member_id, command.member_epoch, 0)
    if command.member_epoch == LEAVE_AND_RETURN_EPOCH:
        # Its place and its partitions are kept for as long as its session lasts.
        away = replace(group.current(command.member_id), epoch=LEAVE_AND_RETURN_EPOCH, revoking=NONE)
        facts: list[GroupFact] = [
            CurrentSet(group.group_id, command.member_id, away),
            TimerCleared(TimerKey(TimerKind.REVOKE, group.group_id, command.member_id)),
        ]
        return Decision(facts, [Reply(ticket, answer)])
    decision = migration.remove(group, [command.member_id], config, now_ms, wall_ms)
    decision.replies.append(Reply(ticket, answer))
    return decision


def expire(
    group: ConsumerGroup, keys: list[TimerKey], config: GroupConfig, now_ms: int, wall_ms: int | None = None
) -> Decision[GroupFact]:
    """Members that were silent too long, or took too long to give partitions up or to rejoin, are out."""
    gone = list(dict.fromkeys(key.member_id for key in keys if key.member_id in group.subscribers))
    decision = migration.remove(group, gone, config, now_ms, wall_ms) if gone else Decision()
    decision.facts[:0] = [TimerCleared(key) for key in keys if key.member_id not in gone]
    return decision


def start_after_replay(group: ConsumerGroup, config: GroupConfig, now_ms: int) -> list[GroupFact]:
    facts: list[GroupFact] = []
    for member_id, subscriber in group.subscribers.items():
        key = TimerKey(TimerKind.SESSION, group.group_id, member_id)
        classic = subscriber.classic
        session_ms = config.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        facts.append(TimerSet(key, now_ms + session_ms))
        if group.current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
            revoke = TimerKey(TimerKind.REVOKE, group.group_id, member_id)
            facts.append(TimerSet(revoke, now_ms + subscriber.rebalance_timeout_ms))
    return facts
