"""How a follower goes on: from where it fetches, and what an answer of its leader means to it.

answer                              what follows
records                             they are appended
records, behind its tombstones      everything is given up: keys that were deleted since would come back (`log.horizon`)
a diverging epoch                   the log is cut where it parts from the leader's (KIP-101, KIP-279)
out of range, leader starts later   everything is given up, the log begins where the leader's does
out of range, log is empty          the same: the leader's ends before it
any other error                     asked again a little later: one of the two has not heard of the other's metadata
"""

from __future__ import annotations

from typing import NamedTuple

from chronik.core.errors import Code
from chronik.core.log.horizon import NOTHING_GONE
from chronik.core.log.log import Log
from chronik.core.replica.divergence import Diverging, cut_at
from chronik.core.types import NO_EPOCH, Buffer


class Position(NamedTuple):
    """Where a log ends, and the epoch of its last batch (-1: it has none)."""

    fetch_offset: int
    last_epoch: int


class LeaderAnswer(NamedTuple):
    """What a leader answers of one partition. Offsets are -1 where it does not say."""

    error: Code
    start_offset: int
    diverging: Diverging | None
    records: Buffer
    horizon: int = NOTHING_GONE  # below it, tombstones may be missing there


class Append(NamedTuple):
    records: Buffer


class Truncation(NamedTuple):
    """Give up everything from `offset` on, or all of it (`is_reset`) to begin anew there."""

    offset: int
    is_reset: bool


class BeginAnew(NamedTuple):
    """Give up all of it, once no node counts on it: it ends below the leader's tombstones that are gone."""

    offset: int


class Nothing(NamedTuple):
    """There is nothing new but perhaps the watermark."""


class AskAgain(NamedTuple):
    """It did not work: ask again, a little later."""

    code: Code


def position_of(log: Log) -> Position:
    """What the next fetch says."""
    is_empty = log.end_offset == log.start_offset
    return Position(log.end_offset, NO_EPOCH if is_empty else log.epochs.at(log.end_offset - 1))


def step(log: Log, from_leader: LeaderAnswer) -> Append | Truncation | BeginAnew | Nothing | AskAgain:
    """What a leader's answer to `position_of(log)` means."""
    if from_leader.error is Code.OFFSET_OUT_OF_RANGE and from_leader.start_offset >= 0:
        is_empty = log.end_offset == log.start_offset
        if log.end_offset < from_leader.start_offset or (is_empty and log.end_offset != from_leader.start_offset):
            return Truncation(from_leader.start_offset, is_reset=True)
    if from_leader.error:
        return AskAgain(from_leader.error)
    if from_leader.diverging is not None:
        return Truncation(cut_at(log, from_leader.diverging), is_reset=False)
    is_behind = from_leader.horizon > max(log.end_offset, log.horizon.offset)
    if len(from_leader.records) and is_behind and log.end_offset > log.start_offset:
        return BeginAnew(from_leader.start_offset)
    return Append(from_leader.records) if len(from_leader.records) else Nothing()
