"""Storms: clients that join, leave, fall silent and come back in any order, and what must hold all the while."""

from __future__ import annotations

import copy
from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import ConsumerBeatSeen, Joined, MemberIdRequired, Synced, TopicIdPartitions
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicState, counted
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.machine import LogRecord
from tests.unit.core.machines.groups.host import GROUP, TOPICS, Host, beat, consumer_beat, join, leave, sync

PARTITIONS = 6


def state_of(machine: GroupsMachine) -> Any:
    """Everything a machine holds, to compare by value."""
    groups = {
        group_id: copy.deepcopy(vars(group)) if isinstance(group, ConsumerGroup) else group
        for group_id, group in machine.groups.items()
    }
    return groups, copy.deepcopy(machine.offsets._by_group), machine.timers.deadlines()


class CarefulHost(Host):
    """A host that sees to it that deciding changes nothing and that the log tells all there is to keep."""

    def send(self, command: Any) -> int:
        before = state_of(self.machine)
        try:
            self.machine.decide(-1, command, self.now_ms)
            self.machine.expire(self.now_ms + 1_000_000)
        except Refused:
            pass
        assert state_of(self.machine) == before, "deciding changed something"
        ticket = super().send(command)
        for group in self.machine.groups.values():
            if isinstance(group, ClassicGroup):
                assert group.supporters == counted({}, (), group.members.values())
        return ticket

    def check_log(self) -> None:
        """What the log says is what the machine holds, as far as it is meant to last."""
        replayed = self.restarted().machine
        assert replayed.offsets._by_group == self.machine.offsets._by_group
        for group_id, group in self.machine.groups.items():
            twin = replayed.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                assert isinstance(twin, ConsumerGroup)
                assert vars(twin) == vars(group)
            elif group.state in (ClassicState.STABLE, ClassicState.EMPTY) and group.generation > 0:
                assert isinstance(twin, ClassicGroup)
                assert lasting(twin) == lasting(group)


def lasting(group: ClassicGroup) -> Any:
    members = [(m.member_id, m.instance_id, m.metadata(group.protocol), m.assignment) for m in group.members.values()]
    return group.state, group.generation, group.protocol, group.leader, members


class ClassicClient:
    """A consumer of the classic protocol; as leader it deals partitions out in turn."""

    def __init__(self, name: str, host: Host, instance_id: str | None) -> None:
        self.name, self.host, self.instance_id = name, host, instance_id
        self.member_id, self.generation, self.lives = "", -1, 0
        self.owned: tuple[int, tuple[int, ...]] | None = None  # generation and partitions
        self.waiting: int | None = None

    def act(self) -> None:
        """Whatever this client would do next."""
        if self.waiting is not None:
            answer = self.host.answer(self.waiting)
            if answer is None:
                return
            self.waiting = None
            self._hear(answer)
        elif self.generation < 0:
            self._join()
        else:
            self._hear(self.host.ask(beat(self.member_id, self.generation, self.instance_id)))

    def restart(self) -> None:
        self.member_id, self.generation, self.owned, self.waiting = "", -1, None, None

    def leave(self) -> None:
        if self.member_id:
            self.host.ask(leave((self.member_id, self.instance_id)))
        self.restart()

    def _join(self) -> None:
        self.lives += 1
        command = join(self.member_id, f"{self.name}.{self.lives}", instance_id=self.instance_id)
        self.waiting = self.host.send(command)

    def _hear(self, answer: Any) -> None:
        match answer:
            case MemberIdRequired(member_id):
                self.member_id = member_id
            case Joined():
                self.member_id, self.generation = answer.member_id, answer.generation
                names = [member.member_id for member in answer.members]
                dealt = tuple((name, bytes(range(i, PARTITIONS, len(names)))) for i, name in enumerate(names))
                self.waiting = self.host.send(sync(self.member_id, self.generation, dealt, self.instance_id))
            case Synced(_, _, assignment):
                self.owned = (self.generation, tuple(assignment))
            case Code.REBALANCE_IN_PROGRESS:
                self.generation, self.owned = -1, None
            case Code.UNKNOWN_MEMBER_ID | Code.ILLEGAL_GENERATION | Code.FENCED_INSTANCE_ID:
                self.restart()


class ConsumerClient:
    """A consumer of the KIP-848 protocol that gives up what it is told to, a heartbeat later."""

    def __init__(self, name: str, host: Host, instance_id: str | None) -> None:
        self.name, self.host, self.instance_id = name, host, instance_id
        self.lives, self.epoch = 0, 0
        self.member_id = name
        self.owned: tuple[TopicIdPartitions, ...] = ()
        self.topics: dict[str, TopicShape] = dict(TOPICS)
        self.joined = False

    def act(self) -> None:
        if not self.joined:
            self.lives += 1
            self.member_id = f"{self.name}.{self.lives}"
            self.epoch, self.owned = 0, ()
        answer = self.host.ask(
            consumer_beat(
                self.member_id,
                self.epoch,
                instance_id=self.instance_id,
                topics=self.topics,
                owned=self.owned,
                subscribed_topics=("orders", "bills"),
            )
        )
        if isinstance(answer, ConsumerBeatSeen):
            self.joined, self.epoch = True, answer.member_epoch
            if answer.assignment is not None:
                self.owned = answer.assignment
        else:
            self.restart()

    def restart(self) -> None:
        self.joined, self.owned = False, ()

    def leave(self) -> None:
        if self.joined:
            epoch = -2 if self.instance_id is not None else -1
            self.host.ask(consumer_beat(self.member_id, epoch, instance_id=self.instance_id))
        self.restart()


def check_no_partition_twice(host: Host) -> None:
    group = host.machine.groups.get(GROUP)
    if not isinstance(group, ConsumerGroup):
        return
    held = [pair for current in group.currents.values() for pair in sorted(current.assigned | current.revoking)]
    assert len(held) == len(set(held)), "a partition with two owners"
    assert set(group.owners) == set(held)
    assert all(group.epoch >= group.target_epoch >= current.epoch for current in group.currents.values())


def latest(log: list[LogRecord]) -> list[LogRecord]:
    """The log after compaction: the last record of each key, in order."""
    last = {record.key: place for place, record in enumerate(log)}
    return [record for place, record in enumerate(log) if last[record.key] == place and record.value is not None]
