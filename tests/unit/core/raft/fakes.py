"""What a Raft machine is handed in tests: a log in memory whose tail a crash can take, dice, and a host.

The host does what the package demands of whatever runs the machine: it carries a `Ready` out in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from chronik.core.raft.core import Raft
from chronik.core.raft.messages import LogPoint, Message, RaftFetchAnswer
from chronik.core.raft.quorum import VoterHistory, Voters, VotersAt
from chronik.core.raft.ready import ElectionState, Envelope, RaftSettings, Ready, VotersChange

SNAPSHOT_BYTES_A_RECORD = 300_000  # so that a snapshot of a few records takes several fetches


class Entry(NamedTuple):
    """A record of the fake log."""

    epoch: int
    value: object


class FakeLog:
    """Records in a list: below `start_offset` only in the snapshot, from `synced_offset` on a crash may take them."""

    def __init__(self, voters: Sequence[int] = (1,), epochs: Sequence[int] = ()) -> None:
        self.records = [Entry(epoch, f"old {offset}") for offset, epoch in enumerate(epochs)]
        self.history = VoterHistory(Voters(tuple(voters)))
        self.start_offset = 0
        self.synced_offset = len(self.records)
        self.snapshot: LogPoint | None = None
        self.writes = 0

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.records[-1].epoch if self.records else 0

    @property
    def voters(self) -> VotersAt:
        return self.history.latest

    def epochs(self) -> list[int]:
        return [entry.epoch for entry in self.records]

    def end_offset_for(self, epoch: int) -> LogPoint:
        floor = max(self.start_offset - 1, 0)  # the last record in the snapshot tells the epoch it ends in
        for offset in range(self.end_offset - 1, floor - 1, -1):
            if self.records[offset].epoch <= epoch:
                return LogPoint(self.records[offset].epoch, offset + 1)
        return LogPoint(0, self.start_offset)

    def snapshot_bytes(self, snapshot: LogPoint) -> int | None:
        return snapshot.end_offset * SNAPSHOT_BYTES_A_RECORD if snapshot == self.snapshot else None

    def append(self, records: Sequence[Entry]) -> None:
        for entry in records:
            if isinstance(entry.value, VotersChange):
                self.history.add(self.end_offset, Voters(entry.value.voters))
            self.records.append(entry)
        self.writes += 1

    def truncate(self, end_offset: int) -> None:
        assert self.start_offset <= end_offset < self.end_offset
        del self.records[end_offset:]
        self.synced_offset = min(self.synced_offset, end_offset)
        self.history.truncate(end_offset)

    def sync(self) -> None:
        self.synced_offset = self.end_offset

    def take_snapshot(self, end_offset: int) -> None:
        assert self.start_offset < end_offset <= self.synced_offset
        self.snapshot = LogPoint(self.records[end_offset - 1].epoch, end_offset)
        self.start_offset = end_offset

    def install(self, snapshot: LogPoint, records: Sequence[Entry]) -> None:
        assert len(records) == snapshot.end_offset
        assert records[-1].epoch == snapshot.epoch
        self.records = list(records)
        self.snapshot = snapshot
        self.start_offset = self.synced_offset = snapshot.end_offset
        at = [(offset, e.value) for offset, e in enumerate(records) if isinstance(e.value, VotersChange)]
        if at:
            self.history.restart(snapshot.end_offset, Voters(at[-1][1].voters))

    def crash(self, kept_offset: int) -> None:
        """Of what was not synced, this much happens to be on disk."""
        assert self.synced_offset <= kept_offset <= self.end_offset
        if kept_offset < self.end_offset:
            self.truncate(kept_offset)
        self.synced_offset = self.end_offset


class SeededChance:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def uuid(self) -> bytes:
        return self._random.randbytes(16)


class FixedChance:
    """Always the same fraction: a node with a larger one waits longer."""

    def __init__(self, permille: int = 0) -> None:
        self._permille = permille

    def below(self, bound: int) -> int:
        return bound * self._permille // 1000

    def uuid(self) -> bytes:
        return bytes(16)


class Crashed(Exception):
    """The host died in the middle of its work."""


Snapshots = dict[LogPoint, list[Entry]]


class Host:
    """A machine with its disk. What is on disk outlives the machine."""

    def __init__(self, node_id: int, log: FakeLog, chance: FixedChance | SeededChance, settings: RaftSettings) -> None:
        self.node_id = node_id
        self.log = log
        self.saved = ElectionState()
        self.chance = chance
        self.settings = settings
        self.is_up = True
        self.die: Callable[[str], bool] = lambda stage: False
        self.applied_watermark = -1  # what this incarnation's machines have been told is safe
        self.outbox: list[Envelope] = []
        self.raft = self._new_raft(0)

    def _new_raft(self, now_ms: int) -> Raft:
        return Raft(self.node_id, self.saved, self.log, self.settings, self.chance, now_ms)

    def crash(self, kept_offset: int | None = None) -> None:
        self.is_up = False
        self.outbox = []
        self.log.crash(self.log.synced_offset if kept_offset is None else kept_offset)

    def restart(self, now_ms: int) -> None:
        self.is_up = True
        self.applied_watermark = -1
        self.raft = self._new_raft(now_ms)

    def carry_out(self, ready: Ready, records: Sequence[Entry] = (), snapshots: Snapshots | None = None) -> Ready:
        """In the order that the package demands. The host may die before each stage; then nothing later happens."""
        self._may_die("election")
        if ready.election is not None:
            assert ready.election.epoch >= self.saved.epoch, "an epoch went back"
            self.saved = ready.election
        self._may_die("log")
        if ready.truncate_to is not None:
            assert ready.truncate_to >= self.applied_watermark, "cut what was safe"
            self.log.truncate(ready.truncate_to)
        if ready.append:
            self.log.append([Entry(self.saved.epoch, value) for value in ready.append])
        if ready.take:
            self.log.append(records)
        if ready.install is not None:
            assert snapshots is not None
            self.log.install(ready.install, snapshots[ready.install])
        self._may_die("send")
        self.outbox += ready.send
        if ready.high_watermark is not None:
            assert ready.high_watermark > self.applied_watermark, "the watermark went back"
            self.applied_watermark = ready.high_watermark
        return ready

    def _may_die(self, stage: str) -> None:
        if self.die(stage):
            raise Crashed(stage)

    def records_for(self, message: Message, count_max: int) -> list[Entry]:
        """What travels beside an answer to a fetch."""
        if isinstance(message, RaftFetchAnswer) and message.is_sound:
            start = message.asked.end_offset
            return self.log.records[start : start + count_max]
        return []
