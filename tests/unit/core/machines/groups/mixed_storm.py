"""Clients that change between the classic and the consumer protocol while their group lives, and what each one uses.

Nobody falls silent here without stopping: what a client uses, it may use.
"""

from __future__ import annotations

from typing import Any

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import (
    ConsumerBeatSeen,
    Joined,
    JoinedMember,
    MemberIdRequired,
    Synced,
    TopicIdPartitions,
)
from chronik.core.machines.groups.consumer_protocol import (
    NamedPartition,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tests.unit.core.machines.groups.host import TOPICS, Host, beat, consumer_beat, join, leave, subscription, sync
from tests.unit.core.machines.groups.storms import CarefulHost

ALL = [NamedPartition(name, number) for name, shape in TOPICS.items() for number in range(shape.partition_count)]
WANTED = tuple(TOPICS)


class MovingHost(CarefulHost):
    """Its coordinator may move: what was parked is never answered then."""

    lives = 1
    is_careful = True

    def send(self, command: Any) -> int:
        return super().send(command) if self.is_careful else Host.send(self, command)

    def move(self) -> None:
        other = self.restarted()
        self.machine, self.entries = other.machine, other.entries
        self.lives += 1


class ChangingClient:
    """A consumer that stops as a member of one protocol and starts again as one of the other."""

    def __init__(self, name: str, host: MovingHost, instance_id: str | None, is_cooperative: bool) -> None:
        self.name, self.host, self.instance_id = name, host, instance_id
        self.is_cooperative = is_cooperative
        self.is_classic = True
        self.starts = 0
        self.is_running = True
        self.used: frozenset[NamedPartition] = frozenset()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.starts += 1
        self.used = frozenset()
        self.epoch = 0  # or generation; 0: not a member
        self.member_id = "" if self.is_classic else f"{self.name}.{self.starts}"
        self._waiting: tuple[int, int] | None = None  # the coordinator's life, and the ticket

    # What can happen to it

    def crash(self) -> None:
        self._begin_anew()

    def stop(self) -> None:
        """In good order; a static member means to be back."""
        if self.is_classic and self.member_id and self.instance_id is None:
            self.host.send(leave((self.member_id, None)))
        elif not self.is_classic and self.epoch:
            epoch = -1 if self.instance_id is None else -2
            self.host.send(consumer_beat(self.member_id, epoch, instance_id=self.instance_id))
        self._begin_anew()

    def change(self) -> None:
        self.stop()
        self.is_classic = not self.is_classic
        self._begin_anew()

    def act(self) -> None:
        if self.is_classic:
            self._act_as_classic()
        else:
            self._heartbeat()

    # The consumer protocol

    def _heartbeat(self) -> None:
        ids = {name: shape.topic_id for name, shape in TOPICS.items()}
        owned = tuple(TopicIdPartitions(ids[name], (number,)) for name, number in sorted(self.used))
        command = consumer_beat(
            self.member_id, self.epoch, instance_id=self.instance_id, subscribed_topics=WANTED, owned=owned
        )
        answer = self.host.ask(command)
        if isinstance(answer, ConsumerBeatSeen):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = {id: name for name, id in ids.items()}
                told = ((names[topic.topic_id], number) for topic in answer.assignment for number in topic.partitions)
                self.used = frozenset(NamedPartition(*one) for one in told)
            return
        assert answer in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH, Code.UNRELEASED_INSTANCE_ID), answer
        self._begin_anew()

    # The classic protocol

    def _act_as_classic(self) -> None:
        if self._waiting is not None:
            life, ticket = self._waiting
            answer = self.host.answer(ticket)
            if answer is not None:
                self._waiting = None
                self._hear(answer)
            elif life != self.host.lives:
                self._waiting = None
                self._rejoin()
        elif not self.epoch:
            self._join()
        else:
            self._hear(self.host.ask(beat(self.member_id, self.epoch, self.instance_id)))

    def _join(self) -> None:
        self.starts += 1
        protocols = (("range", subscription(*WANTED, owned=self.used)),)
        command = join(
            self.member_id,
            f"{self.name}.{self.starts}",
            instance_id=self.instance_id,
            protocols=protocols,
            topics=TOPICS,
        )
        self._waiting = self.host.lives, self.host.send(command)

    def _rejoin(self) -> None:
        """An eager one uses nothing from now on."""
        self.epoch = 0
        if not self.is_cooperative:
            self.used = frozenset()

    def _hear(self, answer: Any) -> None:
        match answer:
            case MemberIdRequired(member_id):
                self.member_id = member_id
            case Joined():
                self.member_id, self.epoch = answer.member_id, answer.generation
                dealt = () if answer.leader != self.member_id else self._deal(answer.members)
                self._waiting = (
                    self.host.lives,
                    self.host.send(sync(self.member_id, self.epoch, dealt, self.instance_id)),
                )
            case Synced():
                self._use(read_assignment(answer.assignment).partitions)
            case Code.REBALANCE_IN_PROGRESS:
                self._rejoin()
            case Code.ILLEGAL_GENERATION:
                self.used, self.epoch = frozenset(), 0
            case Code.UNKNOWN_MEMBER_ID | Code.FENCED_INSTANCE_ID:
                self._begin_anew()
            case _:
                assert type(answer).__name__ == "HeartbeatSeen", answer

    def _use(self, given: frozenset[NamedPartition]) -> None:
        gives_up = self.used - given
        self.used = given
        if gives_up and self.is_cooperative:
            self.epoch = 0  # joins again, without them

    def _deal(self, members: tuple[JoinedMember, ...]) -> tuple[tuple[str, bytes], ...]:
        """In turn; what another still uses is withheld until it has given it up."""
        users = {pair: one.member_id for one in members for pair in read_subscription(one.metadata).owned}
        ids = [one.member_id for one in members]
        shares: dict[str, set[NamedPartition]] = {id: set() for id in ids}
        for place, pair in enumerate(ALL):
            id = ids[place % len(ids)]
            if users.get(pair, id) == id:
                shares[id].add(pair)
        return tuple((id, write_assignment(1, frozenset(share))) for id, share in shares.items())


def check_nothing_is_used_twice(clients: list[ChangingClient]) -> None:
    used = [pair for client in clients for pair in client.used]
    told = {client.name: sorted(client.used) for client in clients}
    assert len(used) == len(set(used)), f"a partition of two: {told}"
