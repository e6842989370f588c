"""A cluster of Raft machines that does only what it is told, step by step, and tells the story in words.

Unlike the simulation, nothing happens here by chance: a test moves the clock, lets messages through and kills nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from chronik.core.errors import Code, Refused
from chronik.core.raft import messages as m
from chronik.core.raft.messages import LogPoint, Message
from chronik.core.raft.ready import ElectionState, Envelope, LeaderChange, RaftSettings, Ready, VotersChange
from tests.unit.core.raft.fakes import Entry, FakeLog, FixedChance, Host, Snapshots


class Cluster:
    """Nodes with instant disks. The dice make node 1 the most impatient, then node 2, and so on."""

    def __init__(self, *ids: int, voters: Sequence[int] = (), logs: dict[int, Sequence[int]] | None = None) -> None:
        self.now_ms = 0
        self.story: list[str] = []
        self.wire: deque[tuple[int, Envelope, tuple[Entry, ...]]] = deque()
        self.cut_off: list[int] = []
        self.snapshots: Snapshots = {}
        self.is_synced_at_once = True
        self.hosts: dict[int, Host] = {}
        self.roles_before: dict[int, str] = {}
        for number, node_id in enumerate(ids):
            log = FakeLog(voters or ids, (logs or {}).get(node_id, ()))
            host = Host(node_id, log, FixedChance(number * 100), RaftSettings())
            host.saved = ElectionState(log.latest_epoch)
            host.restart(0)
            self.hosts[node_id] = host
            self.roles_before[node_id] = self.role(node_id)

    @classmethod
    def led(cls, *ids: int, voters: Sequence[int] = ()) -> Cluster:
        """With node 1 as its leader; of three nodes, if not told otherwise."""
        cluster = cls(*(ids or (1, 2, 3)), voters=voters)
        cluster.led_by(1)
        return cluster

    def __getitem__(self, node_id: int) -> Host:
        return self.hosts[node_id]

    @property
    def leaders(self) -> list[int]:
        return [node_id for node_id, host in self.hosts.items() if host.is_up and host.raft.is_leader]

    def plays(self, node_id: int, role: type) -> bool:
        return isinstance(self.hosts[node_id].raft.role, role)

    # --- steps

    def at(self, now_ms: int) -> None:
        """The clock stands here now. Whose deadline has passed acts, in order; nothing is delivered."""
        self.now_ms = now_ms
        for host in self.hosts.values():
            deadline_ms = host.raft.next_deadline_ms() if host.is_up else None
            if deadline_ms is not None and now_ms >= deadline_ms:
                self.do(host, host.raft.tick(now_ms), "tick")

    def deliver(self, count: int = 1000) -> None:
        """Messages in the order they were sent, and what follows from them, until there are none."""
        while self.wire and count:
            sender, (to, message), cargo = self.wire.popleft()
            if to in self.hosts and self.hosts[to].is_up and sender not in self.cut_off and to not in self.cut_off:
                self.step(to, message, cargo)
                count -= 1
            else:
                self.story.append(f"{sender}>{to} {words(message)} is lost")

    def step(self, to: int, message: Message, cargo: Sequence[Entry] = ()) -> Ready:
        host = self.hosts[to]
        ready = host.raft.step(message, self.now_ms)
        return self.do(host, ready, f"hears {words(message)} from {message.sender}", cargo)

    def fetch(self, *ids: int) -> None:
        """These nodes ask once for more, and are answered."""
        for node_id in ids:
            envelope = self.hosts[node_id].raft.next_fetch()
            if envelope is None:
                self.story.append(f"{node_id} has nobody to ask")
            else:
                self.wire.append((node_id, envelope, ()))
                self.deliver()

    def elect(self, node_id: int) -> None:
        """The quick way to a leader: the node's timer ends and nobody objects."""
        host = self.hosts[node_id]
        self.now_ms = max(self.now_ms, host.raft.next_deadline_ms() or 0)
        self.do(host, host.raft.tick(self.now_ms), "tick")
        self.deliver()
        assert host.raft.is_leader, host.raft.role

    def led_by(self, node_id: int) -> None:
        """How most stories start, in short: the node is elected, the others have fetched and know what is safe."""
        self.elect(node_id)
        for _ in range(3):
            self.fetch(*(follower for follower in self.hosts if follower != node_id))
        self.story.clear()
        self.show()

    def write(self, node_id: int, *values: object) -> None:
        host = self.hosts[node_id]
        assert host.raft.is_leader
        host.log.append([Entry(host.raft.epoch, value) for value in values])
        self.story.append(f"{node_id} writes {', '.join(str(value) for value in values)}")
        self.log_changed(host)

    def sync(self, node_id: int) -> None:
        host = self.hosts[node_id]
        host.log.sync()
        self.do(host, host.raft.log_grew(self.now_ms), "synced")

    def resign(self, node_id: int) -> None:
        self.do(self.hosts[node_id], self.hosts[node_id].raft.resign(self.now_ms), "resigns")

    def add(self, leader: int, node_id: int) -> Code:
        return self._change(leader, f"adds voter {node_id}", self.hosts[leader].raft.add_voter, node_id)

    def remove(self, leader: int, node_id: int) -> Code:
        return self._change(leader, f"removes voter {node_id}", self.hosts[leader].raft.remove_voter, node_id)

    def _change(self, leader: int, what: str, change: Callable[[int, int], Ready], node_id: int) -> Code:
        try:
            self.do(self.hosts[leader], change(node_id, self.now_ms), what)
        except Refused as refused:
            self.story.append(f"{leader} {what}: refused, {refused.code.name}: {refused.message}")
            return refused.code
        return Code.NONE

    def kill(self, node_id: int) -> None:
        self.hosts[node_id].crash()
        self.story.append(f"{node_id} dies")

    def restart(self, node_id: int) -> None:
        self.hosts[node_id].restart(self.now_ms)
        self.roles_before[node_id] = self.role(node_id)
        self.story.append(f"{node_id} starts as {self.role(node_id)}")

    def snapshot(self, node_id: int, end_offset: int) -> None:
        log = self.hosts[node_id].log
        log.take_snapshot(end_offset)
        assert log.snapshot is not None
        self.snapshots[log.snapshot] = log.records[:end_offset]
        self.story.append(f"{node_id} has a snapshot up to {point(log.snapshot)}, and its log begins there")

    # --- what follows

    def do(self, host: Host, ready: Ready, why: str, cargo: Sequence[Entry] = ()) -> Ready:
        before, after = self.roles_before[host.node_id], self.role(host.node_id)
        self.story.append(f"{host.node_id} {why}" + (f": {before} -> {after}" if before != after else ""))
        self.roles_before[host.node_id] = after
        self.story.extend(f"    {line}" for line in work(ready, cargo))
        host.carry_out(ready, cargo, self.snapshots)
        for envelope in host.outbox:
            self.wire.append((host.node_id, envelope, tuple(host.records_for(envelope.message, 100))))
        host.outbox = []
        if ready.append or cargo or ready.truncate_to is not None or ready.install is not None:
            self.log_changed(host)
        return ready

    def log_changed(self, host: Host) -> None:
        if self.is_synced_at_once:
            host.log.sync()
        ready = host.raft.log_grew(self.now_ms)
        if work(ready, ()):
            self.do(host, ready, "synced")

    def role(self, node_id: int) -> str:
        raft = self.hosts[node_id].raft
        return f"{type(raft.role).__name__} in epoch {raft.epoch}"

    def show(self) -> None:
        for host in self.hosts.values():
            watermark = host.raft.high_watermark
            state = self.role(host.node_id) if host.is_up else "down"
            self.story.append(f"{host.node_id} {state}, epochs {host.log.epochs()}, high watermark {watermark}")


def point(place: LogPoint) -> str:
    return f"{place.end_offset} of epoch {place.epoch}"


def work(ready: Ready, cargo: Sequence[Entry]) -> list[str]:
    """A Ready in words, in the order it is carried out."""
    lines = []
    if ready.election is not None:
        epoch, voted_for, leader, is_new = ready.election
        lines.append(f"save epoch {epoch}, voted for {voted_for}, leader {leader}{', new' if is_new else ''}")
    if ready.truncate_to is not None:
        lines.append(f"cut the log at {ready.truncate_to}")
    for record in ready.append:
        match record:
            case LeaderChange(leader, epoch):
                lines.append(f"append 'node {leader} leads epoch {epoch}'")
            case VotersChange(_, voters):
                lines.append(f"append 'voters are {', '.join(map(str, voters))}'")
    if ready.take and cargo:
        lines.append(f"take {len(cargo)} records")
    if ready.install is not None:
        lines.append(f"install the snapshot up to {point(ready.install)}")
    lines.extend(f"send {to} {words(message)}" for to, message in ready.send)
    if ready.high_watermark is not None:
        lines.append(f"safe below {ready.high_watermark}")
    return lines


def words(message: Message) -> str:
    """A message in words."""
    match message:
        case m.Vote(_, epoch, log_end, is_pre_vote):
            return f"{'PreVote' if is_pre_vote else 'Vote'}(epoch {epoch}, log to {point(log_end)})"
        case m.VoteAnswer(_, epoch, leader, is_granted, is_pre_vote):
            answer = "yes" if is_granted else "no"
            return f"{'PreVote' if is_pre_vote else 'Vote'}Answer(epoch {epoch}, leader {leader}: {answer})"
        case m.EndEpoch(_, epoch, successors):
            return f"EndEpoch(epoch {epoch}, successors {', '.join(map(str, successors))})"
        case m.Fetch(_, epoch, log_end):
            return f"Fetch(epoch {epoch}, from {point(log_end)})"
        case m.RaftFetchAnswer(_, epoch, leader, _, code, watermark, diverging, snapshot):
            news = f"high watermark {watermark}" if code is Code.NONE else code.name
            if diverging is not None:
                news = f"diverging, agreed up to {point(diverging)} at most"
            elif snapshot is not None:
                news = f"fetch the snapshot up to {point(snapshot)}"
            return f"FetchAnswer(epoch {epoch}, leader {leader}: {news})"
        case m.FetchSnapshot(_, epoch, snapshot, position):
            return f"FetchSnapshot(epoch {epoch}, up to {point(snapshot)}, from byte {position})"
        case m.FetchSnapshotAnswer(_, epoch, leader, _, position, end_position, size_bytes, code):
            news = f"bytes {position} to {end_position} of {size_bytes}" if code is Code.NONE else code.name
            return f"FetchSnapshotAnswer(epoch {epoch}, leader {leader}: {news})"
    code = getattr(message, "code", Code.NONE)
    led_by = f", leader {message.leader}" if hasattr(message, "leader") else ""
    return f"{type(message).__name__}(epoch {message.epoch}{led_by}{'' if code is Code.NONE else ': ' + code.name})"
