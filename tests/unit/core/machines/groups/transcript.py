"""Reads the commands of a transcript, runs them, and writes down what was answered and what became true.

A transcript is a text: lines that begin with `>` are commands, `#` are remarks, everything else is what follows from
the command above it: `<-` an answer (with the number of its command), `+` a durable fact, `~` a passing one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chronik.core.errors import Corrupt, Refused
from chronik.core.machines.groups.answers import (
    ConsumerBeatSeen,
    Joined,
    Left,
    MemberIdRequired,
    OffsetsCommitted,
    OffsetsFetched,
    Synced,
    TopicIdPartitions,
)
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import OffsetToCommit, TopicShape
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import by_topic
from chronik.core.machines.groups.consumer_protocol import (
    NamedPartition,
    read_assignment,
    read_subscription,
    write_assignment,
)
from chronik.core.machines.groups.facts import (
    ClassicGroupChanged,
    ClassicGroupForgotten,
    ClassicGroupSaved,
    CurrentSet,
    GroupEpochSet,
    GroupTopicsSet,
    OffsetSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerCleared,
    TimerSet,
)
from chronik.core.machines.machine import Decision
from tests.unit.core.machines.groups.host import (
    NOW_MS,
    Host,
    beat,
    commit,
    consumer_beat,
    fetch,
    join,
    leave,
    subscription,
    sync,
)

TOPIC_NAMES = {"orders": 1, "bills": 2, "later": 3}


class Recorder(Host):
    """A host that writes everything down."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.lines: list[str] = []
        super().__init__(*args, **kwargs)
        self.lines.clear()  # waking up is the same in all stories

    def send(self, command: Any) -> int:
        ticket = super().send(command)
        answer = self.answers.get(ticket)
        if isinstance(answer, Refused) and not any(line.startswith(f"<- #{ticket} ") for line in self.lines):
            self.lines.append(f"<- #{ticket} {answer.code.name}")
        return ticket

    def _take(self, decision: Decision) -> None:
        super()._take(decision)
        for reply in decision.replies:
            self.lines.append(f"<- #{reply.ticket} {_answer(reply.answer)}")
        for fact in decision.facts:
            self.lines.append(f"{'+' if fact.durable else '~'} {_fact(fact)}")


class Story:
    """A transcript being played."""

    def __init__(self) -> None:
        self.host = Recorder(GroupConfig(initial_rebalance_delay_ms=3_000))
        self.topics = {"orders": TopicShape(bytes([1]) * 16, 4)}

    def play(self, text: str) -> str:
        out: list[str] = []
        for line in text.splitlines():
            if line.startswith("#") or not line.strip():
                out.append(line)
            elif line.startswith(">"):
                words = line[1:].split()
                self.host.lines.clear()
                self._run(
                    words[0], [w for w in words[1:] if "=" not in w], dict(w.split("=", 1) for w in words if "=" in w)
                )
                out += [line, *(f"  {said}" for said in self.host.lines)]
        return "\n".join(_without_gaps(out)) + "\n"

    def _run(self, verb: str, words: list[str], named: dict[str, str]) -> None:
        host = self.host
        match verb:
            case "join":
                host.send(replace(_join(words, named), topics=dict(self.topics)))
            case "sync":
                given = tuple((who, _assignment(what)) for who, what in named.items() if who != "instance")
                command = sync(words[0], int(words[1]), given, named.get("instance"))
                host.send(replace(command, protocol=None))
            case "heartbeat":
                host.send(beat(words[0], int(words[1]), named.get("instance")))
            case "leave":
                host.send(leave(*((word, None) for word in words), *(("", name) for name in named.values())))
            case "commit":
                offsets = [OffsetToCommit(t.split("-")[0], int(t.split("-")[1]), int(o)) for t, o in named.items()]
                member_id, generation = (words[0], int(words[1])) if words else ("", -1)
                host.send(commit(*offsets, member_id=member_id, generation=generation))
            case "fetch":
                host.send(fetch())
            case "beat":
                host.send(self._consumer_beat(words, named))
            case "topic":
                self.topics[words[0]] = TopicShape(bytes([TOPIC_NAMES[words[0]]]) * 16, int(words[1]))
            case "wait":
                host.wait(int(words[0]))
            case "restart":
                self.host = Recorder(host.config, host.log, host.now_ms)
            case _:
                raise AssertionError(f"no such command in a transcript: {verb}")

    def _consumer_beat(self, words: list[str], named: dict[str, str]) -> Any:
        changes: dict[str, Any] = {"topics": dict(self.topics), "instance_id": named.get("instance")}
        if "topics" in named:
            changes["subscribed_topics"] = tuple(named["topics"].split(","))
        if "regex" in named:
            changes |= {"subscribed_regex": named["regex"], "subscribed_topics": None}
        if "assignor" in named:
            changes["assignor"] = named["assignor"]
        if "owned" in named:
            changes["owned"] = tuple(_owned(part) for part in named["owned"].split("/") if part != "nothing")
        return consumer_beat(words[0], int(words[1]), **changes)


def _join(words: list[str], named: dict[str, str]) -> Any:
    changes: dict[str, Any] = {"instance_id": named.get("instance")}
    if "protocols" in named:
        pairs = (pair.partition(":") for pair in named["protocols"].split(","))
        changes["protocols"] = tuple((name, metadata.encode()) for name, _, metadata in pairs)
    if "wants" in named:
        owned = named_partitions(named.get("owned", "nothing"))
        changes["protocols"] = (("range", subscription(*named["wants"].split(","), owned=owned)),)
    if "type" in named:
        changes["protocol_type"] = named["type"]
    if "session" in named:
        changes["session_timeout_ms"] = int(named["session"])
    if "version" in named:
        version = int(named["version"])
        changes |= {"needs_known_member_id": version >= 4, "may_skip_assignment": version >= 9}
    member_id = "" if not words or words[0] == "-" else words[0]
    return join(member_id, named.get("as", "new"), **changes)


def named_partitions(text: str) -> list[NamedPartition]:
    """`orders:0,1/bills:0`, or nothing."""
    parts = (part.partition(":") for part in text.split("/") if part != "nothing")
    return [NamedPartition(name, int(number)) for name, _, numbers in parts for number in numbers.split(",")]


def _assignment(text: str) -> bytes:
    """In the words of consumers, if it names a topic; else any bytes."""
    if text.partition(":")[0] not in TOPIC_NAMES:
        return text.encode()
    return write_assignment(1, frozenset(named_partitions(text)))


def _given(assignment: bytes) -> str:
    try:
        partitions = read_assignment(assignment).partitions
    except Corrupt:
        return assignment.decode()
    by_name: dict[str, list[str]] = {}
    for name, number in sorted(partitions):
        by_name.setdefault(name, []).append(str(number))
    return "/".join(f"{name}:{','.join(numbers)}" for name, numbers in by_name.items())


def _wanted(metadata: bytes) -> str:
    try:
        return ",".join(read_subscription(metadata).topics)
    except Corrupt:
        return metadata.decode()


def _owned(part: str) -> TopicIdPartitions:
    name, _, numbers = part.partition(":")
    return TopicIdPartitions(bytes([TOPIC_NAMES[name]]) * 16, tuple(int(number) for number in numbers.split(",")))


def _without_gaps(lines: list[str]) -> list[str]:
    return [line for i, line in enumerate(lines) if line.strip() or (i and lines[i - 1].strip())]


def _answer(answer: Any) -> str:
    match answer:
        case Refused():
            return answer.code.name
        case MemberIdRequired(member_id):
            return f"MEMBER_ID_REQUIRED {member_id}"
        case Joined():
            members = ", ".join(f"{m.member_id}:{_wanted(m.metadata)}" for m in answer.members)
            skip = ", skip the assignment" if answer.skip_assignment else ""
            led = f"leads {members}" if members else f"leader {answer.leader or 'nobody'}"
            return f"joined as {answer.member_id}, generation {answer.generation}, {answer.protocol}, {led}{skip}"
        case Synced():
            return f"assigned {_given(answer.assignment) or 'nothing'}"
        case Left(codes) | OffsetsCommitted(codes):
            return " ".join(code.name for code in codes)
        case OffsetsFetched(offsets):
            return " ".join(f"{one.topic}-{one.partition}={one.offset}" for one in offsets) or "no offsets"
        case ConsumerBeatSeen():
            given = "as before" if answer.assignment is None else _partitions(answer.assignment)
            return f"{answer.member_id} at epoch {answer.member_epoch}, has {given}"
    return type(answer).__name__


def _partitions(topics: tuple[TopicIdPartitions, ...]) -> str:
    names = {number: name for name, number in TOPIC_NAMES.items()}
    return " ".join(f"{names[t.topic_id[0]]}:{','.join(map(str, t.partitions))}" for t in topics) or "nothing"


def _group(group: ClassicGroup) -> str:
    marks = []
    for member in group.members.values():
        waits = ["joins"] if member.join_ticket is not None else []
        waits += ["syncs"] if member.sync_ticket is not None else []
        waits += [_given(member.assignment)] if member.assignment and not waits else []
        leads = "*" if group.leader == member.member_id else ""
        marks.append(member.member_id + leads + (f"({' '.join(waits)})" if waits else ""))
    to_come = f", to come: {' '.join(group.pending_joins)}" if group.pending_joins else ""
    return f"{group.state}, generation {group.generation}: {' '.join(marks) or 'nobody'}{to_come}"


def _fact(fact: Any) -> str:
    match fact:
        case ClassicGroupChanged(group) | ClassicGroupSaved(group):
            return _group(group)
        case ClassicGroupForgotten():
            return "the classic group is forgotten"
        case OffsetSet(_, topic, partition, committed):
            return f"{topic}-{partition} " + ("forgotten" if committed is None else f"at {committed.offset}")
        case GroupEpochSet(_, epoch):
            return "the consumer group is forgotten" if epoch is None else f"group epoch {epoch}"
        case GroupTopicsSet(_, topics):
            return "topics " + (" ".join(f"{n}[{t.partition_count}]" for n, t in (topics or {}).items()) or "none")
        case TargetEpochSet(_, epoch):
            return "no target" if epoch is None else f"target epoch {epoch}"
        case SubscriberSet(_, member_id, subscriber):
            if subscriber is None:
                return f"{member_id} is no member"
            regex = [f"/{subscriber.regex}/"] if subscriber.regex else []
            protocol = "" if subscriber.classic is None else " by the classic protocol"
            return f"{member_id} wants {' '.join([*subscriber.topics, *regex])}{protocol}"
        case TargetSet(_, member_id, partitions):
            return f"{member_id} to have " + ("no say" if partitions is None else _partitions(by_topic(partitions)))
        case CurrentSet(_, member_id, None):
            return f"{member_id} holds nothing"
        case CurrentSet(_, member_id, current) if current is not None:
            revoking = f", gives up {_partitions(by_topic(current.revoking))}" if current.revoking else ""
            holds = _partitions(by_topic(current.assigned))
            return f"{member_id} at epoch {current.epoch} {current.state.name} holds {holds}{revoking}"
        case TimerSet(key, deadline_ms):
            return f"timer {key.kind} {key.member_id} at {deadline_ms - NOW_MS}".replace("  ", " ")
        case TimerCleared(key):
            return f"timer {key.kind} {key.member_id}".rstrip() + " off"
    raise AssertionError(fact)
