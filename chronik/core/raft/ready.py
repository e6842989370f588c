"""What a step asks to be done (the package says in which order), and what the machine is handed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from chronik.core.raft.messages import LogPoint, Message
from chronik.core.raft.quorum import VotersAt


class ElectionState(NamedTuple):
    """What must survive a crash (Raft, figure 2: currentTerm and votedFor; Kafka keeps the leader as well).

    `is_new`: this node has just got its disk. It may have had another one before, with records on it that others count
    on, so it has no say about logs until it has caught up (`Raft.is_new`).
    """

    epoch: int = 0
    voted_for: int | None = None
    leader: int | None = None
    is_new: bool = False


class RaftLog(Protocol):
    """The log as the machine sees it. It begins at a snapshot, or at offset 0."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def synced_offset(self) -> int:
        """Everything below it survives a crash."""

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot when none follows it; 0 without either."""

    @property
    def voters(self) -> VotersAt:
        """The last voters record, safe or not (see `VoterHistory`)."""

    @property
    def snapshot(self) -> LogPoint | None:
        """The latest snapshot."""

    def snapshot_bytes(self, snapshot: LogPoint) -> int | None:
        """How large that snapshot is; None when it is not here."""

    def end_offset_for(self, epoch: int) -> LogPoint:
        """The largest epoch in the log that is not above `epoch`, and where its records end (KIP-101, KIP-279).

        The snapshot that the log begins at counts as the end of its epoch. (0, start offset) when all is later.
        """


class RaftSettings(NamedTuple):
    """Kafka's defaults: controller.quorum.election.timeout.ms, .fetch.timeout.ms, .election.backoff.max.ms,
    .fetch.snapshot.max.bytes."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    backoff_max_ms: int = 1000
    ask_again_ms: int = 250
    snapshot_fetch_bytes_max: int = 1024 * 1024


class LeaderChange(NamedTuple):
    """The control record with which an epoch begins: until it is safe, nothing of earlier epochs is (Raft, 5.4.2)."""

    leader: int
    epoch: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]  # who voted for the leader


class VotersChange(NamedTuple):
    """The control record that changes the voters, in force as soon as it is in the log (KIP-853)."""

    epoch: int
    voters: tuple[int, ...]


class Envelope(NamedTuple):
    to: int
    message: Message


@dataclass(slots=True)
class Ready:
    """The work that follows from a step."""

    election: ElectionState | None = None
    truncate_to: int | None = None
    append: list[LeaderChange | VotersChange] = field(default_factory=list)
    take: bool = (
        False  # append the records or the snapshot's bytes that came with this answer; else they are not for us
    )
    install: LogPoint | None = None  # this snapshot is whole: it takes the place of the log
    send: list[Envelope] = field(default_factory=list)
    high_watermark: int | None = None
