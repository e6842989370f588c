"""What voters say to each other. Each is one of Kafka's requests or its answer; `sender` is who said it.

The sender of a fetch may be `NO_NODE`: it is answered, and nothing is remembered of it.

Every request gets exactly one answer, in the `Ready` of the step that took it. An answer repeats from its request what
tells a late one from the one that is waited for; on the wire, the correlation id does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from chronik.core.errors import Code

NO_NODE = -1


class LogPoint(NamedTuple):
    """A place between two records: all below `end_offset`, the last of it written in `epoch`. 0, 0 is an empty log.

    Two logs that share a point are the same below it (Raft, 5.3: log matching). Of two points the greater is the more
    up-to-date one (5.4.1). A snapshot has the name of the point it ends at.
    """

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Vote:
    """Vote (52): will you vote for me? With `is_pre_vote` (KIP-996): would you, if I asked? Raises no epoch."""

    sender: int
    epoch: int
    log_end: LogPoint
    is_pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class VoteAnswer:
    sender: int
    epoch: int
    leader: int | None
    is_granted: bool
    is_pre_vote: bool = False
    code: Code = Code.NONE


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """BeginQuorumEpoch (53): I am the leader of this epoch; fetch from me."""

    sender: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BeginEpochAnswer:
    sender: int
    epoch: int
    leader: int | None
    code: Code = Code.NONE


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """EndQuorumEpoch (54): I give up leading; the first of `successors` need not wait to be elected."""

    sender: int
    epoch: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndEpochAnswer:
    sender: int
    epoch: int
    leader: int | None
    code: Code = Code.NONE


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch (1): what comes after `log_end`? I have everything below it on disk.

    The leader notes when it came, as one that waits is stepped again though its sender has said nothing since; and when
    its sender surely followed: at the answer before, which it had when it asked this. A leader that was stopped for a
    while finds fetches that were sent long before it reads them. None: now.
    """

    sender: int
    epoch: int
    log_end: LogPoint
    arrived_ms: int | None = None
    followed_ms: int | None = None


class LastAnswer(NamedTuple):
    """What a leader last answered to a follower's fetch."""

    high_watermark: int
    connection_id: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class RaftFetchAnswer:
    """What the leader says to a fetch; the records themselves travel beside it and begin at `asked`.

    `diverging`: our logs agree up to there at the most; cut yours and ask again.
    `snapshot`: what you ask for is gone; fetch that snapshot instead.
    """

    sender: int
    epoch: int
    leader: int | None
    asked: LogPoint
    code: Code = Code.NONE
    high_watermark: int = -1
    diverging: LogPoint | None = None
    snapshot: LogPoint | None = None

    @property
    def is_sound(self) -> bool:
        """The logs agree below `asked`, so the records that come along belong there."""
        return self.code is Code.NONE and self.diverging is None and self.snapshot is None


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """FetchSnapshot (59): the bytes of that snapshot from `position` on."""

    sender: int
    epoch: int
    snapshot: LogPoint
    position: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotAnswer:
    """The bytes [position, end_position) of a snapshot of `size_bytes` travel beside it."""

    sender: int
    epoch: int
    leader: int | None
    snapshot: LogPoint
    position: int
    end_position: int = 0
    size_bytes: int = 0
    code: Code = Code.NONE


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
Answer: TypeAlias = VoteAnswer | BeginEpochAnswer | EndEpochAnswer | RaftFetchAnswer | FetchSnapshotAnswer
Message: TypeAlias = Request | Answer
