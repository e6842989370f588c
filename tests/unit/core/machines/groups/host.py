"""A host for a groups machine without log or loop: it appends, applies and hands out answers as the real one does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import MemberIdRequired
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import (
    Beat,
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerBeat,
    FetchOffsets,
    Join,
    Leave,
    Leaver,
    OffsetToCommit,
    Sync,
    TopicShape,
)
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.consumer_protocol import NamedPartition, write_assignment
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.machine import Decision, LogMarker, LogRecord
from chronik.core.records.schema import INT16, INT32, NULLABLE_BYTES, NULLABLE_STRING, STRING, array_of

GROUP = "g"
RANGE = (("range", b"sub"),)
NOW_MS = 1_000_000


class Host:
    """One machine, its log, its clock, and the answers that have gone out."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        log: Sequence[LogRecord | LogMarker] | None = None,
        now_ms: int = NOW_MS,
    ) -> None:
        self.config = config or GroupConfig(initial_rebalance_delay_ms=0)
        self.machine = GroupsMachine(0, self.config)
        self.entries: list[LogRecord | LogMarker] = []  # the log
        self.now_ms = now_ms
        self.wall_ahead_ms = 0  # how far the wall clock was set forward (or back) since this host began
        self.answers: dict[int, Any] = {}
        self.facts: list[Any] = []  # of the last command
        self._last_ticket = 0
        for entry in log or []:
            if isinstance(entry, LogMarker):
                self.mark(entry.producer_id, entry.is_commit)
            else:
                self.machine.replay(entry)
                self.entries.append(entry)
        self._take(self.machine.expire(self.now_ms, self.wall_ms))

    @property
    def log(self) -> list[LogRecord]:
        """Its records, without markers."""
        return [entry for entry in self.entries if isinstance(entry, LogRecord)]

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_ahead_ms

    def send(self, command: Any) -> int:
        """Ask; the ticket finds the answer in `answers`, now or later."""
        self._last_ticket += 1
        ticket = self._last_ticket
        try:
            self._take(self.machine.decide(ticket, command, self.now_ms, self.wall_ms))
        except Refused as refused:
            self.facts = []
            self.answers[ticket] = refused
        return ticket

    def ask(self, command: Any) -> Any:
        """Ask what is answered at once. A refusal is its code."""
        return self.answer(self.send(command))

    def answer(self, ticket: int) -> Any:
        answer = self.answers.get(ticket)
        return answer.code if isinstance(answer, Refused) else answer

    def mark(self, producer_id: int, is_commit: bool = True) -> None:
        """The marker of a producer's transaction is in the log."""
        marker = LogMarker(producer_id, is_commit)
        self.entries.append(marker)
        for fact in self.machine.decided(marker):
            self.machine.apply(fact)

    def wait(self, milliseconds: int) -> None:
        """Let time pass, waking the machine whenever it asked to be woken."""
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.machine.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._take(self.machine.expire(self.now_ms, self.wall_ms))
        self.now_ms = end_ms

    def restarted(self) -> Host:
        """Another host that knows only what this one's log says, and begins when the wall clock says so."""
        return Host(self.config, self.entries, self.wall_ms)

    def _take(self, decision: Decision) -> None:
        self.facts = decision.facts
        self.entries += [self.machine.encode(fact) for fact in decision.facts if fact.durable]
        for fact in decision.facts:
            self.machine.apply(fact)
        for reply in decision.replies:
            assert reply.ticket not in self.answers, "answered twice"
            self.answers[reply.ticket] = reply.answer

    # Words for stories

    def classic(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.machine.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def consumer(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.machine.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def joins(self, member_id: str, **changes: Any) -> int:
        """Join under this very id, going through the handshake if need be."""
        ticket = self.send(join("", new_member_id=member_id, **changes))
        if isinstance(self.answers.get(ticket), MemberIdRequired):
            ticket = self.send(join(member_id, **changes))
        return ticket

    def stable_group(self, *member_ids: str, **changes: Any) -> int:
        """A stable group of these; the first leads. Returns the generation."""
        for member_id in member_ids:
            self.joins(member_id, **changes)
            for other in member_ids[: member_ids.index(member_id)]:
                self.send(join(other, **changes))
        generation = self.classic().generation
        leader = self.classic().leader
        assert leader == member_ids[0]
        assignments = tuple((member_id, member_id.encode()) for member_id in member_ids)
        for member_id in (*member_ids[1:], leader):
            self.send(sync(member_id, generation, assignments if member_id == leader else ()))
        assert str(self.classic().state) == "Stable"
        return generation


def join(member_id: str = "", new_member_id: str = "new", **changes: Any) -> Join:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return Join(**{**fields, **changes}, member_id=member_id, new_member_id=new_member_id)


def sync(
    member_id: str, generation: int, assignments: tuple[tuple[str, bytes], ...] = (), instance_id: str | None = None
) -> Sync:
    return Sync(GROUP, member_id, instance_id, generation, "consumer", "range", assignments)


def beat(member_id: str, generation: int, instance_id: str | None = None) -> Beat:
    return Beat(GROUP, member_id, instance_id, generation)


def leave(*members: tuple[str, str | None]) -> Leave:
    return Leave(GROUP, tuple(Leaver(*member) for member in members))


def commit(
    *offsets: OffsetToCommit, member_id: str = "", generation: int = -1, group_id: str = GROUP, **changes: Any
) -> CommitOffsets:
    return CommitOffsets(group_id, member_id, changes.pop("instance_id", None), generation, offsets, **changes)


def commit_in_transaction(
    *offsets: OffsetToCommit,
    producer_id: int = 7,
    member_id: str = "",
    generation: int = -1,
    group_id: str = GROUP,
    instance_id: str | None = None,
    knows_epochs: bool = False,
) -> CommitOffsetsInTransaction:
    return CommitOffsetsInTransaction(group_id, member_id, instance_id, generation, offsets, producer_id, knows_epochs)


def fetch(*partitions: tuple[str, int], group_id: str = GROUP, **changes: Any) -> FetchOffsets:
    return FetchOffsets(group_id, partitions or None, **changes)


def subscription(*topics: str, owned: Iterable[tuple[str, int]] = (), version: int = 1) -> bytes:
    """What a consumer of the classic protocol says when it joins: ConsumerProtocolSubscription."""
    out = bytearray()
    INT16.write(out, version, False)
    array_of(STRING).write(out, topics, False)
    NULLABLE_BYTES.write(out, None, False)
    if version >= 1:
        pairs = list(owned)
        INT32.write(out, len(pairs), False)  # a topic more than once is as good
        for topic, partition in pairs:
            STRING.write(out, topic, False)
            array_of(INT32).write(out, (partition,), False)
    if version >= 2:
        INT32.write(out, -1, False)
    if version >= 3:
        NULLABLE_STRING.write(out, "rack", False)
    return bytes(out)


def assignment(*partitions: tuple[str, int], version: int = 1) -> bytes:
    return write_assignment(version, frozenset(NamedPartition(*one) for one in partitions))


def topic_id(number: int) -> bytes:
    return bytes([number]) * 16


TOPICS = {"orders": TopicShape(topic_id(1), 4), "bills": TopicShape(topic_id(2), 2)}


def consumer_beat(member_id: str, epoch: int, **changes: Any) -> ConsumerBeat:
    fields: dict[str, Any] = {"client_id": "client", "client_host": "/127.0.0.1", "topics": TOPICS}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topics": ("orders",), "owned": ()}
    return ConsumerBeat(GROUP, member_id, epoch, **{**fields, **changes})


__all__ = [
    "GROUP",
    "NOW_MS",
    "TOPICS",
    "Code",
    "Host",
    "assignment",
    "beat",
    "commit",
    "consumer_beat",
    "fetch",
    "join",
    "leave",
    "subscription",
    "sync",
]
