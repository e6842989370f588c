"""One member's change to a KIP-848 group while it is being worked out.

It goes through four steps, each of which may find nothing to do: what the member wants, the group's epoch, the target
assignment, the member's own assignment. Heartbeats of the consumer protocol and joins of the classic one go the same
way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chronik.core.machines.groups.assignors import ASSIGNORS
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup, Current, MemberState, Partitions, Subscriber
from chronik.core.machines.groups.facts import (
    CurrentSet,
    GroupEpochSet,
    GroupFact,
    GroupTopicsSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerCleared,
    TimerSet,
)
from chronik.core.machines.groups.reconcile import reconcile, rejoined
from chronik.core.machines.groups.subscriptions import applicants, subscribed_topics, wants_after
from chronik.core.machines.groups.timers import TimerKey, TimerKind


def removal(group: ConsumerGroup, member_id: str) -> list[GroupFact]:
    """The facts that take a member out of its group."""
    group_id = group.group_id
    facts: list[GroupFact] = [
        CurrentSet(group_id, member_id, None),
        TargetSet(group_id, member_id, None),
        SubscriberSet(group_id, member_id, None),
    ]
    kinds = [TimerKind.SESSION, TimerKind.REVOKE]
    if group.subscribers[member_id].classic is not None:
        kinds += [TimerKind.JOIN, TimerKind.SYNC]
    return facts + [TimerCleared(TimerKey(kind, group_id, member_id)) for kind in kinds]


class ConsumerStep:
    """A group, one of its members (or one that joins), and the facts that follow from what it said."""

    def __init__(
        self,
        group: ConsumerGroup,
        member_id: str,
        topics: Mapping[str, TopicShape],
        config: GroupConfig,
        now_ms: int,
        facts: list[GroupFact],
    ) -> None:
        self.group = group
        self.member_id = member_id
        self.facts = facts
        self._topics = topics  # every topic there is
        self._config = config
        self._now_ms = now_ms
        # Members as they will be, where that differs from the group: None for one that is replaced.
        self._changed: dict[str, Subscriber | None] = {}
        self._target = group.target(member_id)

    def take_over(self, old_id: str) -> tuple[Subscriber, Current]:
        """A static member is back under a new id, with all that belonged to the old one."""
        group = self.group
        subscriber = group.subscribers[old_id]
        current = replace(group.current(old_id), epoch=0, previous_epoch=0)
        self._target = group.target(old_id)
        self.facts += removal(group, old_id)
        self.facts += [
            SubscriberSet(group.group_id, self.member_id, subscriber),
            TargetSet(group.group_id, self.member_id, self._target),
            CurrentSet(group.group_id, self.member_id, current),
        ]
        self._changed[old_id] = None
        return subscriber, current

    def change(
        self,
        before: Subscriber | None,
        after: Subscriber,
        current: Current,
        owned: Partitions | None,
        *,
        begins_anew: bool = False,
    ) -> Current:
        """What the member gets. `owned` is what it says it uses (None: it did not say); one that `begins_anew` says it
        uses nothing, and may not know better."""
        self._changed[self.member_id] = after
        if after != before:
            self.facts.append(SubscriberSet(self.group.group_id, self.member_id, after))
        epoch, topics = self._update_epoch(after, is_new=before is None)
        if epoch > self.group.target_epoch:
            self._update_target(epoch, topics)
            target_epoch = epoch
        else:
            target_epoch = self.group.target_epoch
        return self._reconcile(after, current, target_epoch, owned, begins_anew)

    def time(self, kind: TimerKind, delay_ms: int) -> None:
        self.facts.append(TimerSet(TimerKey(kind, self.group.group_id, self.member_id), self._now_ms + delay_ms))

    def clear(self, kind: TimerKind) -> None:
        self.facts.append(TimerCleared(TimerKey(kind, self.group.group_id, self.member_id)))

    def _update_epoch(self, after: Subscriber, is_new: bool) -> tuple[int, Mapping[str, TopicShape]]:
        group = self.group
        before = self._before()
        resubscribed = is_new or before is None or (before.topics, before.regex) != (after.topics, after.regex)
        if resubscribed or len(self._changed) > 1:
            names, regexes = wants_after(group, self._changed)
            topics = subscribed_topics(names, regexes, self._topics)
        else:
            topics = subscribed_topics(group.names, group.regexes, self._topics)
        epoch = group.epoch
        if topics != group.topics:
            self.facts.append(GroupTopicsSet(group.group_id, topics))
        if resubscribed or topics != group.topics:
            epoch += 1
            self.facts.append(GroupEpochSet(group.group_id, epoch))
        return epoch, topics

    def _before(self) -> Subscriber | None:
        """The subscription that counted until now: this member's, or that of the one it replaces."""
        known = [self.group.subscribers.get(member_id) for member_id in self._changed]
        return next((subscriber for subscriber in known if subscriber is not None), None)

    def _update_target(self, epoch: int, topics: Mapping[str, TopicShape]) -> None:
        group = self.group
        members = {id: s for id, s in group.subscribers.items() if id not in self._changed}
        members |= {id: s for id, s in self._changed.items() if s is not None}
        assignor = group.assignor(self._config.consumer_assignors[0], members)
        given = applicants(group, members, topics)
        given[self.member_id] = given[self.member_id]._replace(target=self._target)
        counts = {shape.topic_id: shape.partition_count for shape in topics.values()}
        for member_id, partitions in ASSIGNORS[assignor](given, counts).items():
            old = self._target if member_id == self.member_id else group.target(member_id)
            if partitions != old or member_id not in group.targets:
                self.facts.append(TargetSet(group.group_id, member_id, partitions))
            if member_id == self.member_id:
                self._target = partitions
        self.facts.append(TargetEpochSet(group.group_id, epoch))

    def _reconcile(
        self, member: Subscriber, current: Current, target_epoch: int, owned: Partitions | None, begins_anew: bool
    ) -> Current:
        group = self.group
        after = reconcile(current, target_epoch, self._target, owned, self._is_free)
        if begins_anew:
            after = rejoined(group.current(self.member_id), after)
        if after != group.currents.get(self.member_id):
            self.facts.append(CurrentSet(group.group_id, self.member_id, after))
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.time(TimerKind.REVOKE, member.rebalance_timeout_ms)
            else:
                self.clear(TimerKind.REVOKE)
        return after

    def _is_free(self, pair: tuple[bytes, int]) -> bool:
        owner = self.group.owners.get(pair)
        return owner is None or owner in self._changed  # in changed: this member, or the one it replaces
