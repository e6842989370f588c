"""Where a follower's log diverges from its leader's, found by leader epochs (KIP-101, KIP-279, KIP-595).

A follower's fetch says where its log ends and of which epoch its last batch is. If the leader's log knows that epoch
and has it that far, all below is the same in both. If not, the leader names the last epoch that they may share, and
where that ended in its own log; the follower cuts there, or a bit further down, and asks again.
"""

from __future__ import annotations

from typing import NamedTuple

from chronik.core.errors import Code, Refused
from chronik.core.log.log import Log
from chronik.core.types import NO_EPOCH, UNKNOWN_OFFSET


class Diverging(NamedTuple):
    """The last epoch two logs may share, and where it ends in the leader's."""

    epoch: int
    end_offset: int


def diverging(log: Log, fetch_offset: int, last_epoch: int) -> Diverging | None:
    """How the leader's log parts from that of a follower which ends at `fetch_offset` with a batch of `last_epoch`
    (-1: it has none). None when it does not. Raises Refused (OFFSET_OUT_OF_RANGE)."""
    if fetch_offset < log.start_offset:
        raise Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {fetch_offset}, the log starts at {log.start_offset}")
    if last_epoch != NO_EPOCH:
        epoch, end_offset = log.epochs.end_offset_for(last_epoch, log.end_offset)
        if epoch == NO_EPOCH or end_offset == UNKNOWN_OFFSET:
            raise Refused(Code.OFFSET_OUT_OF_RANGE, f"epoch {last_epoch} is not known here")
        if epoch < last_epoch or end_offset < fetch_offset:
            return Diverging(epoch, end_offset)
    if fetch_offset > log.end_offset:
        raise Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {fetch_offset}, the log ends at {log.end_offset}")
    return None


def cut_at(log: Log, answer: Diverging) -> int:
    """Where a follower cuts its log when its leader reported this. It may have to ask once more after that."""
    own_epoch, own_end = log.epochs.end_offset_for(answer.epoch, log.end_offset)
    if own_epoch == answer.epoch:
        return min(own_end, answer.end_offset, log.end_offset)
    if own_epoch == NO_EPOCH or own_end == UNKNOWN_OFFSET:
        return min(answer.end_offset, log.end_offset)
    # It has nothing of that epoch: all that is of later ones goes, and the one before is asked about next.
    return min(own_end, log.end_offset)
