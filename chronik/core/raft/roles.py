"""What a node is in an epoch. Each role is a value with what belongs to it; `core` moves between them.

    role         leaves when                                               becomes
    -----------  --------------------------------------------------------  -----------------------------------------
    Unattached   its election timer ends                                   Prospective
                 it hears from a leader of this epoch                      Follower
    Prospective  a majority would vote for it                              Candidate of the next epoch
                 a majority would not, or its timer ends                   Follower or Unattached again
                 it hears from the leader of this epoch                    Follower
    Candidate    a majority voted for it                                   Leader
                 it lost, or its timer ends                                Prospective, after a random wait
                 it hears of a leader of this epoch                        Follower
    Leader       no majority has fetched for a while, it shuts down,
                 or it is no voter any more and that is safe               Resigned
    Follower     its leader is not heard of for a while                    Prospective
                 its leader resigned, and it is the first successor        Candidate of the next epoch
                 its leader resigned, and others come before it            Prospective, sooner or later by its rank
    Resigned     its timer ends                                            Unattached in the next epoch
    any          it hears of a later epoch                                 Unattached in that epoch
    any          it hears from a leader of a later epoch                   Follower in that epoch

A node that is no voter (an observer) is only ever Unattached or Follower, except where its removal is not safe yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from chronik.core.raft.messages import LogPoint
from chronik.core.raft.progress import Progress


@dataclass(slots=True)
class Unattached:
    """Knows the epoch, but no leader of it to fetch from. May have voted."""

    election_at_ms: int


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected, before it disturbs anyone (KIP-996)."""

    until_ms: int
    ask_again_at_ms: int
    granted: dict[int, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Candidate:
    """Has voted for itself and asks the others."""

    until_ms: int
    ask_again_at_ms: int
    granted: dict[int, bool] = field(default_factory=dict)
    retry_at_ms: int | None = None  # it lost: the random wait before it tries again


@dataclass(slots=True)
class Leader:
    epoch_start_offset: int  # of the record that says it leads
    since_ms: int
    announce_at_ms: int
    progress: Progress


@dataclass(slots=True)
class Transfer:
    """A snapshot that is being fetched, and how much of it is here."""

    snapshot: LogPoint
    position: int = 0


@dataclass(slots=True)
class Follower:
    leader: int
    fetch_until_ms: int  # when it gives its leader up
    has_fetched: bool = False  # with success, in this epoch
    leader_high_watermark: int = -1  # as reported by a leader whose log agrees with ours up to our end
    transfer: Transfer | None = None


@dataclass(slots=True)
class Resigned:
    election_at_ms: int
    announce_at_ms: int
    successors: tuple[int, ...] = ()
    unaware: tuple[int, ...] = ()  # those of them that have not answered yet


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
