"""The groups machine: all groups and committed offsets of one partition of `__consumer_offsets`.

`decide` and `expire` only read and return facts; `apply` alone changes state; `encode` and `replay` are the way to the
log and back. A machine that was replayed wants `expire` at once: its members get a fresh session then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups import (
    classic_join,
    classic_members,
    consumer_beat,
    consumer_classic,
    offset_desk,
    records,
)
from chronik.core.machines.groups.answers import ListedGroup
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.classic_step import ClassicStep
from chronik.core.machines.groups.commands import (
    AnyGroupCommand,
    Beat,
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerBeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    FetchOffsets,
    Join,
    Leave,
    Sync,
    TopicsDeleted,
)
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.describe import describe_classic, describe_consumer, list_groups
from chronik.core.machines.groups.facts import (
    ClassicGroupChanged,
    ClassicGroupForgotten,
    ClassicGroupSaved,
    CurrentSet,
    GroupEpochSet,
    GroupFact,
    GroupTopicsSet,
    OffsetSet,
    PendingOffsetsDecided,
    PendingOffsetSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerCleared,
    TimerSet,
)
from chronik.core.machines.groups.limits import check_lengths
from chronik.core.machines.groups.offsets import CommittedOffsets
from chronik.core.machines.groups.pending_offsets import OffsetOwner, PendingOffsets
from chronik.core.machines.groups.timers import TimerKey, TimerKind, Timers
from chronik.core.machines.machine import Decision, LogMarker, LogRecord, Reply

_LOADED = TimerKey(TimerKind.LOADED)
_RETENTION = TimerKey(TimerKind.RETENTION)


class GroupsMachine:
    """Groups and their offsets, decided here and nowhere else."""

    def __init__(
        self, partition: int, config: GroupConfig, config_of: Callable[[str], GroupConfig] | None = None
    ) -> None:
        self.partition = partition
        self.config = config
        self._config_of = config_of or (lambda group_id: self.config)  # with what is set for one group
        self.groups: dict[str, ClassicGroup | ConsumerGroup] = {}
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self.timers = Timers()
        self.timers.set(_LOADED, 0)

    # Reading

    def list_groups(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[ListedGroup]:
        return list_groups(self.groups.values(), states, types)

    def next_deadline_ms(self) -> int | None:
        return self.timers.next_deadline_ms()

    # Deciding

    def decide(
        self, ticket: int, command: AnyGroupCommand, now_ms: int, wall_ms: int | None = None
    ) -> Decision[GroupFact]:
        check_lengths(command)
        if self._may_begin_group(command) and len(self.groups) >= self.config.groups_max:
            raise Refused(Code.GROUP_MAX_SIZE_REACHED, f"this coordinator has {len(self.groups)} groups")
        match command:
            case Join() | Sync() | Beat() | Leave():
                return self._decide_classic(ticket, command, now_ms, wall_ms)
            case ConsumerBeat():
                group = self.groups.get(command.group_id)
                return consumer_beat.beat(ticket, command, group, self._config_of(command.group_id), now_ms, wall_ms)
            case CommitOffsets():
                return offset_desk.commit(ticket, command, self.groups, self.config, now_ms, wall_ms)
            case CommitOffsetsInTransaction():
                return offset_desk.commit_in_transaction(ticket, command, self.groups, self.config, now_ms, wall_ms)
            case FetchOffsets():
                return offset_desk.fetch(ticket, command, self.groups, self.offsets, self.pending)
            case DeleteOffsets():
                return offset_desk.delete_offsets(ticket, command, self.groups, self.offsets, self.pending)
            case DeleteGroup():
                return offset_desk.delete_group(ticket, command, self.groups, self.offsets, self.pending)
            case TopicsDeleted():
                return offset_desk.topics_deleted(ticket, command, self.offsets, self.pending)
            case DescribeGroup(group_id):
                return Decision([], [Reply(ticket, describe_classic(group_id, self.groups.get(group_id)))])
            case DescribeConsumerGroup(group_id):
                default = self.config.consumer_assignors[0]
                return Decision([], [Reply(ticket, describe_consumer(group_id, self.groups.get(group_id), default))])
        assert_never(command)

    def _may_begin_group(self, command: AnyGroupCommand) -> bool:
        match command:
            case Join() | ConsumerBeat() | CommitOffsets() | CommitOffsetsInTransaction():
                return command.group_id not in self.groups
        return False

    def _decide_classic(
        self, ticket: int, command: Join | Sync | Beat | Leave, now_ms: int, wall_ms: int | None
    ) -> Decision[GroupFact]:
        group = self.groups.get(command.group_id)
        before: list[GroupFact] = []
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                return consumer_classic.decide(
                    ticket, command, group, self.timers, self._config_of(group.group_id), now_ms, wall_ms
                )
            if not isinstance(command, Join):
                raise Refused(Code.UNKNOWN_MEMBER_ID)
            before = offset_desk.forget_group(group)
            group = None
        if group is None:
            if not isinstance(command, Join) or command.member_id:
                raise Refused(Code.UNKNOWN_MEMBER_ID)
            group = ClassicGroup(command.group_id)
        step = ClassicStep(group, self.config, now_ms, wall_ms)
        match command:
            case Join():
                classic_join.join(step, ticket, command)
            case Sync():
                classic_members.sync(step, ticket, command)
            case Beat():
                classic_members.heartbeat(step, ticket, command)
            case Leave():
                classic_members.leave(step, ticket, command)
            case _:
                assert_never(command)
        decision = step.decision()
        decision.facts[:0] = before
        return decision

    def expire(self, now_ms: int, wall_ms: int | None = None) -> Decision[GroupFact]:
        """For one group at a time, and for the machine itself: what belongs to many would be a batch of any size."""
        due = self.timers.due(now_ms)
        if not due:
            return Decision()
        if _LOADED in due:
            return self._start_after_replay(now_ms, wall_ms)
        if _RETENTION in due:
            return self._expire_offsets(now_ms, wall_ms)
        return self._expire_group(due, now_ms, wall_ms)

    def _expire_group(self, keys: list[TimerKey], now_ms: int, wall_ms: int | None) -> Decision[GroupFact]:
        group = self.groups.get(keys[0].group_id)
        if isinstance(group, ClassicGroup):
            step = ClassicStep(group, self.config, now_ms, wall_ms)
            for key in keys:
                if not step.has_set(key):  # what another one did may have given it more time
                    classic_members.expire(step, key)
            return step.decision()
        if isinstance(group, ConsumerGroup):
            return consumer_beat.expire(group, keys, self._config_of(group.group_id), now_ms, wall_ms)
        return Decision([TimerCleared(key) for key in keys])

    def _expire_offsets(self, now_ms: int, wall_ms: int | None) -> Decision[GroupFact]:
        """Each offset by itself: there may be more than a batch holds. The timer comes last, so that it is due until
        all of them are gone."""
        facts = offset_desk.expire_offsets(self.groups, self.offsets, self.pending, self.config, now_ms, wall_ms)
        facts.append(TimerSet(_RETENTION, now_ms + self.config.offsets_retention_check_interval_ms))
        return Decision(facts, is_atomic=False)

    def _start_after_replay(self, now_ms: int, wall_ms: int | None) -> Decision[GroupFact]:
        retention = TimerSet(_RETENTION, now_ms + self.config.offsets_retention_check_interval_ms)
        decision = Decision[GroupFact]([TimerCleared(_LOADED), retention])
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                step = ClassicStep(group, self.config, now_ms, wall_ms)
                classic_members.start_after_replay(group, step)
                self._extend(decision, step.decision())
            else:
                decision.facts += consumer_beat.start_after_replay(group, self._config_of(group.group_id), now_ms)
        return decision

    @staticmethod
    def _extend(decision: Decision[GroupFact], more: Decision[GroupFact]) -> None:
        decision.facts += more.facts
        decision.replies += more.replies

    # Changing

    def apply(self, fact: GroupFact) -> None:
        match fact:
            case ClassicGroupChanged(group) | ClassicGroupSaved(group):
                self.groups[group.group_id] = group
            case ClassicGroupForgotten(group_id):
                if isinstance(self.groups.get(group_id), ClassicGroup):
                    self._forget_group(group_id)
            case OffsetSet(group_id, topic, partition, committed):
                if committed is None:
                    self.offsets.forget(group_id, topic, partition)
                    self.pending.forget(OffsetOwner(group_id, topic, partition))
                else:
                    self.offsets.put(group_id, topic, partition, committed)
                    self.pending.overtaken(OffsetOwner(group_id, topic, partition))
                    self.groups.setdefault(group_id, ClassicGroup(group_id))
            case PendingOffsetSet(producer_id, group_id, topic, partition, committed):
                self.pending.put(producer_id, OffsetOwner(group_id, topic, partition), committed)
                self.groups.setdefault(group_id, ClassicGroup(group_id))
            case PendingOffsetsDecided(producer_id, is_commit):
                self._end_transaction(producer_id, is_commit)
            case TimerSet(key, deadline_ms):
                self.timers.set(key, deadline_ms)
            case TimerCleared(key):
                self.timers.clear(key)
            case _:
                self._apply_to_consumer_group(fact)

    def _apply_to_consumer_group(
        self, fact: GroupEpochSet | GroupTopicsSet | SubscriberSet | TargetEpochSet | TargetSet | CurrentSet
    ) -> None:
        group = self.groups.get(fact.group_id)
        if not isinstance(group, ConsumerGroup):
            if self._takes_back(fact):
                return
            group = self.groups[fact.group_id] = ConsumerGroup(fact.group_id)
        match fact:
            case GroupEpochSet(group_id, None):
                self._forget_group(group_id)
            case GroupEpochSet(_, epoch):
                group.epoch = epoch or 0
            case GroupTopicsSet(_, topics):
                group.topics = topics or {}
            case TargetEpochSet(_, epoch):
                group.target_epoch = epoch or 0
            case SubscriberSet(_, member_id, subscriber):
                group.set_subscriber(member_id, subscriber)
            case TargetSet(_, member_id, partitions):
                group.set_target(member_id, partitions)
            case CurrentSet(_, member_id, current):
                group.set_current(member_id, current)
            case _:
                assert_never(fact)

    def _end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for owner, (place, committed, is_void) in self.pending.end(producer_id):
            if is_commit and not is_void:
                self.offsets.put(*owner, committed)
                self.pending.overtaken(owner, place)

    def _forget_group(self, group_id: str) -> None:
        del self.groups[group_id]
        self.timers.clear_group(group_id)
        if self.offsets.of(group_id) or self.pending.has_group(group_id):
            # Offsets outlive a group that turns into one of the other kind: they always have a group to belong to.
            self.groups[group_id] = ClassicGroup(group_id)

    @staticmethod
    def _takes_back(fact: GroupFact) -> bool:
        """A tombstone for a group that is not there: after compaction it may be all that is left of it."""
        match fact:
            case (
                GroupEpochSet(_, None)
                | GroupTopicsSet(_, None)
                | TargetEpochSet(_, None)
                | SubscriberSet(_, _, None)
                | TargetSet(_, _, None)
                | CurrentSet(_, _, None)
            ):
                return True
        return False

    # The log

    def encode(self, fact: GroupFact) -> LogRecord:
        return records.encode(fact)

    def replay(self, record: LogRecord) -> None:
        fact = records.decode(record)
        if fact is not None:
            self.apply(fact)

    def decided(self, marker: LogMarker) -> list[GroupFact]:
        return [PendingOffsetsDecided(marker.producer_id, marker.is_commit)]
