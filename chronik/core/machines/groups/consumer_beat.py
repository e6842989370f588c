"""ConsumerGroupHeartbeat: a member of a KIP-848 group joins, stays, changes its mind or leaves.

A heartbeat goes through four steps, each of which may find nothing to do: the member, the group's epoch, the target
assignment, the member's own assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import ConsumerBeatSeen
from chronik.core.machines.groups.assignors import ASSIGNORS
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import ConsumerBeat, TopicShape
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import (
    LEAVE_AND_RETURN_EPOCH,
    LEAVE_EPOCH,
    NONE,
    ConsumerGroup,
    Current,
    MemberState,
    Partitions,
    Subscriber,
    by_topic,
    flat,
)
from chronik.core.machines.groups.facts import (
    ClassicGroupForgotten,
    CurrentSet,
    GroupEpochSet,
    GroupTopicsSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerCleared,
    TimerSet,
)
from chronik.core.machines.groups.reconcile import reconcile, rejoined
from chronik.core.machines.groups.subscriptions import applicants, check_regex, subscribed_topics, wants_after
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import Decision, Reply


def beat(
    ticket: int, command: ConsumerBeat, group: ClassicGroup | ConsumerGroup | None, config: GroupConfig, now_ms: int
) -> Decision:
    _check_request(command, config)
    facts: list[Any] = []
    if group is None or (isinstance(group, ClassicGroup) and group.is_empty):
        if command.member_epoch != 0:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"Consumer group {command.group_id} not found.")
        if group is not None:
            facts.append(ClassicGroupForgotten(command.group_id))
        group = ConsumerGroup(command.group_id)
    if isinstance(group, ClassicGroup):
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a consumer group.")
    if command.member_epoch in (LEAVE_EPOCH, LEAVE_AND_RETURN_EPOCH):
        return _leave(ticket, command, group)
    heartbeat = _Heartbeat(command, group, config, now_ms, facts)
    answer = heartbeat.run()
    return Decision(heartbeat.facts, [Reply(ticket, answer)])


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
        self, command: ConsumerBeat, group: ConsumerGroup, config: GroupConfig, now_ms: int, facts: list[Any]
    ) -> None:
        self.command = command
        self.group = group
        self.config = config
        self.now_ms = now_ms
        self.facts = facts
        self.member_id = command.member_id
        # Members as they will be, where that differs from the group: None for one that is replaced.
        self.changed: dict[str, Subscriber | None] = {}
        self.target = group.target(self.member_id)

    def run(self) -> ConsumerBeatSeen:
        before, current = self._find_member()
        self._update_subscriber(before)
        epoch, topics = self._update_epoch(is_new=before is None)
        if epoch > self.group.target_epoch:
            self._update_target(epoch, topics)
            target_epoch = epoch
        else:
            target_epoch = self.group.target_epoch
        after = self._reconcile(current, target_epoch)
        self._time(TimerKind.SESSION, self.config.consumer_session_timeout_ms)
        wants_all = self._is_full() or after.assigned != current.assigned
        return ConsumerBeatSeen(
            self.member_id,
            after.epoch,
            self.config.consumer_heartbeat_interval_ms,
            by_topic(after.assigned) if wants_all else None,
        )

    def _is_full(self) -> bool:
        """The member told us everything: it joins, or recovers from an error. Then it is told everything too."""
        c = self.command
        has_subscription = c.subscribed_topics is not None or c.subscribed_regex is not None
        return c.member_epoch == 0 or (c.rebalance_timeout_ms >= 0 and has_subscription and c.owned is not None)

    # Who is it?

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
        """A static member is back under a new id: it takes the place of the one that left for a while."""
        group = self.group
        old = group.current(old_id)
        if old.epoch != LEAVE_AND_RETURN_EPOCH:
            raise Refused(Code.UNRELEASED_INSTANCE_ID, f"the instance id is owned by member {old_id}")
        subscriber = group.subscribers[old_id]
        current = replace(old, epoch=0, previous_epoch=0)
        self.target = group.target(old_id)
        self.facts += _removal(group.group_id, old_id)
        self.facts += [
            SubscriberSet(group.group_id, self.member_id, subscriber),
            TargetSet(group.group_id, self.member_id, self.target),
            CurrentSet(group.group_id, self.member_id, current),
        ]
        self.changed[old_id] = None
        return subscriber, current

    # What does it want?

    def _update_subscriber(self, before: Subscriber | None) -> None:
        c, old = self.command, before or Subscriber()
        regex = old.regex if c.subscribed_regex is None else (c.subscribed_regex or None)
        names = old.topics if c.subscribed_topics is None else tuple(sorted(frozenset(c.subscribed_topics)))
        after = Subscriber(
            instance_id=c.instance_id or old.instance_id,
            rack_id=c.rack_id or old.rack_id,
            client_id=c.client_id,
            client_host=c.client_host,
            topics=names,
            regex=regex,
            rebalance_timeout_ms=c.rebalance_timeout_ms if c.rebalance_timeout_ms >= 0 else old.rebalance_timeout_ms,
            assignor=c.assignor or old.assignor,
        )
        self.changed[self.member_id] = after
        if after != before:
            self.facts.append(SubscriberSet(self.group.group_id, self.member_id, after))

    def _update_epoch(self, is_new: bool) -> tuple[int, Mapping[str, TopicShape]]:
        group = self.group
        before = self._before()
        after = self.changed[self.member_id]
        assert after is not None
        resubscribed = is_new or before is None or (before.topics, before.regex) != (after.topics, after.regex)
        if resubscribed or len(self.changed) > 1:
            names, regexes = wants_after(group, self.changed)
            topics = subscribed_topics(names, regexes, self.command.topics)
        else:
            topics = subscribed_topics(group.names, group.regexes, self.command.topics)
        epoch = group.epoch
        if topics != group.topics:
            self.facts.append(GroupTopicsSet(group.group_id, topics))
        if resubscribed or topics != group.topics:
            epoch += 1
            self.facts.append(GroupEpochSet(group.group_id, epoch))
        return epoch, topics

    def _before(self) -> Subscriber | None:
        """The subscription that counted until now: this member's, or that of the one it replaces."""
        known = [self.group.subscribers.get(member_id) for member_id in self.changed]
        return next((subscriber for subscriber in known if subscriber is not None), None)

    # What does it get?

    def _update_target(self, epoch: int, topics: Mapping[str, TopicShape]) -> None:
        group = self.group
        members = {id: s for id, s in group.subscribers.items() if id not in self.changed}
        members |= {id: s for id, s in self.changed.items() if s is not None}
        assignor = group.assignor(self.config.consumer_assignors[0], members)
        given = applicants(group, members, topics)
        given[self.member_id] = given[self.member_id]._replace(target=self.target)
        counts = {shape.topic_id: shape.partition_count for shape in topics.values()}
        for member_id, partitions in ASSIGNORS[assignor](given, counts).items():
            old = self.target if member_id == self.member_id else group.target(member_id)
            if partitions != old or member_id not in group.targets:
                self.facts.append(TargetSet(group.group_id, member_id, partitions))
            if member_id == self.member_id:
                self.target = partitions
        self.facts.append(TargetEpochSet(group.group_id, epoch))

    def _reconcile(self, current: Current, target_epoch: int) -> Current:
        group = self.group
        owned: Partitions | None = None if self.command.owned is None else flat(self.command.owned)
        after = reconcile(current, target_epoch, self.target, owned, self._is_free)
        if self.command.member_epoch == 0:
            after = rejoined(group.current(self.member_id), after)
        if after != group.currents.get(self.member_id):
            self.facts.append(CurrentSet(group.group_id, self.member_id, after))
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                subscriber = self.changed[self.member_id]
                assert subscriber is not None
                self._time(TimerKind.REVOKE, subscriber.rebalance_timeout_ms)
            else:
                self.facts.append(TimerCleared(TimerKey(TimerKind.REVOKE, group.group_id, self.member_id)))
        return after

    def _is_free(self, pair: tuple[bytes, int]) -> bool:
        owner = self.group.owners.get(pair)
        return owner is None or owner in self.changed  # in changed: this member, or the one it replaces

    def _time(self, kind: TimerKind, delay_ms: int) -> None:
        self.facts.append(TimerSet(TimerKey(kind, self.group.group_id, self.member_id), self.now_ms + delay_ms))


def _check_static(command: ConsumerBeat, holder: str | None) -> None:
    if holder is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"Instance id {command.instance_id} is unknown.")
    if holder != command.member_id:
        raise Refused(Code.FENCED_INSTANCE_ID, f"Static member {command.member_id} was fenced by member {holder}.")


def _leave(ticket: int, command: ConsumerBeat, group: ConsumerGroup) -> Decision:
    if command.instance_id is not None:
        _check_static(command, group.static_member(command.instance_id))
    elif command.member_id not in group.subscribers:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"{command.member_id} is not a member of {group.group_id}")
    answer = ConsumerBeatSeen(command.member_id, command.member_epoch, 0)
    if command.member_epoch == LEAVE_AND_RETURN_EPOCH:
        # Its place and its partitions are kept for as long as its session lasts.
        away = replace(group.current(command.member_id), epoch=LEAVE_AND_RETURN_EPOCH, revoking=NONE)
        facts = [
            CurrentSet(group.group_id, command.member_id, away),
            TimerCleared(TimerKey(TimerKind.REVOKE, group.group_id, command.member_id)),
        ]
        return Decision(facts, [Reply(ticket, answer)])
    return Decision(_remove(group, [command.member_id]), [Reply(ticket, answer)])


def _removal(group_id: str, member_id: str) -> list[Any]:
    return [
        CurrentSet(group_id, member_id, None),
        TargetSet(group_id, member_id, None),
        SubscriberSet(group_id, member_id, None),
        TimerCleared(TimerKey(TimerKind.SESSION, group_id, member_id)),
        TimerCleared(TimerKey(TimerKind.REVOKE, group_id, member_id)),
    ]


def _remove(group: ConsumerGroup, member_ids: list[str]) -> list[Any]:
    """Members leave for good: the next heartbeat of any other finds a new epoch and makes a new target."""
    facts: list[Any] = []
    for member_id in member_ids:
        facts += _removal(group.group_id, member_id)
    names, regexes = wants_after(group, dict.fromkeys(member_ids))
    topics = subscribed_topics(names, regexes, group.topics)
    if topics != group.topics:
        facts.append(GroupTopicsSet(group.group_id, topics))
    facts.append(GroupEpochSet(group.group_id, group.epoch + 1))
    return facts


def expire(group: ConsumerGroup, keys: list[TimerKey]) -> Decision:
    """Members that were silent too long, or took too long to give partitions up, are out."""
    gone = list(dict.fromkeys(key.member_id for key in keys if key.member_id in group.subscribers))
    facts: list[Any] = [TimerCleared(key) for key in keys if key.member_id not in gone]
    if gone:
        facts += _remove(group, gone)
    return Decision(facts)


def start_after_replay(group: ConsumerGroup, config: GroupConfig, now_ms: int) -> list[Any]:
    facts: list[Any] = []
    for member_id, subscriber in group.subscribers.items():
        key = TimerKey(TimerKind.SESSION, group.group_id, member_id)
        facts.append(TimerSet(key, now_ms + config.consumer_session_timeout_ms))
        if group.current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
            revoke = TimerKey(TimerKind.REVOKE, group.group_id, member_id)
            facts.append(TimerSet(revoke, now_ms + subscriber.rebalance_timeout_ms))
    return facts
