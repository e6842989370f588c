"""Where the log of a follower parts from its leader's, and what is done about it (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from typing import NamedTuple

from chronik.core.raft.messages import LogPoint
from chronik.core.raft.ready import RaftLog


class Same(NamedTuple):
    """The logs agree below the follower's end."""


class RaftDivergence(NamedTuple):
    """They agree up to `agreed` at the most."""

    agreed: LogPoint


class NeedsSnapshot(NamedTuple):
    """The leader no longer has the records that would tell, or that come next."""

    snapshot: LogPoint


def compare(log: RaftLog, follower_end: LogPoint) -> Same | RaftDivergence | NeedsSnapshot:
    """As the leader, whose log this is."""
    agreed = log.end_offset_for(follower_end.epoch)
    if follower_end.end_offset < log.start_offset or agreed.epoch == 0 < log.start_offset:
        if log.snapshot is None:
            raise AssertionError(f"a log that begins at {log.start_offset} without a snapshot")
        return NeedsSnapshot(log.snapshot)
    is_same = agreed.epoch == follower_end.epoch and agreed.end_offset >= follower_end.end_offset
    return Same() if is_same or follower_end.end_offset == 0 else RaftDivergence(agreed)


def cut_at(log: RaftLog, diverging: LogPoint) -> int:
    """As the follower: the leader's end of that epoch, or ours if it is lower. It may take several rounds."""
    own = log.end_offset_for(diverging.epoch)
    return min(diverging.end_offset, own.end_offset) if own.epoch == diverging.epoch else own.end_offset
