"""One stretch of one partition, swept: what is said of each offset by ledger, log and receivers, and what follows.

Everything that is known comes as runs on *layers*. Where runs begin and end the stretch is cut into segments; of all
offsets of a segment the same is known, so that each is judged once, however many records it holds. Neighbours that
come out the same are joined again. Plain arrays in and out; the loops are compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

# The layers: who says something. The range itself; promised to producers; records, as the log has them; received;
# served.
RANGE, LEDGER, RECORD, RECEIVED, SERVED = range(5)
# Why an offset may be missing: in this order, the first that holds is the reason. They are REASONS of `schemas`.
MARKER, ABORTED, OPEN, RETENTION, COMPACTION, WAITING = range(5, 11)
LAYERS = 11
# No runs, but what is known of other stretches of the partition: the least position given further on; the highest
# number of a producer further back.
LATER, EARLIER = 11, 12

FOUND, LOST, UNEXPECTED, EXPLAINED, UNKNOWN = range(5)
EXPECTED_BIT, DUPLICATED_BIT, REORDERED_BIT, TWICE_BIT, IN_LOG_BIT, SERVED_BIT = (1 << bit for bit in range(6))
NONE = -1
_ENDLESS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Sides:
    """What there is to compare. What is expected, and where it is looked for, follows from it."""

    has_ledger: bool
    has_log: bool
    has_received: bool

    @property
    def expected_by(self) -> str:
        """Who says what is expected (see `_judge`): without a ledger no node knows what was acknowledged to
        producers."""
        if self.has_ledger:
            return "ledger"
        return "log" if self.has_log and self.has_received else "offsets"

    @property
    def can_compare(self) -> bool:
        return self.has_log or self.has_received


@dataclass(frozen=True)
class Runs:
    """What is known, a row each: columns of the same length."""

    layer: Any
    start: Any
    end: Any
    position: Any
    """Of the first record of a run that has an order; NONE without."""
    producer: Any
    """Small numbers from 0; NONE for no producer."""


@dataclass(frozen=True)
class Segments:
    """What came out, in the order of offsets: together they are the range, and no two overlap."""

    start: Any
    end: Any
    outcome: Any
    reason: Any
    """The layer that explains; NONE."""
    marks: Any
    times: Any
    producer: Any


def sweep(runs: Runs, sides: Sides) -> Segments:
    """Judge every offset of the range."""
    real = runs.layer < LAYERS
    layer, start, end = runs.layer[real], runs.start[real], runs.end[real]
    bounds = np.unique(np.concatenate((start, end)))
    first, last = np.searchsorted(bounds, start), np.searchsorted(bounds, end)
    count = max(len(bounds) - 1, 0)
    cover = _cover(layer, first, last, count)
    position, producer = runs.position[real], runs.producer[real]
    given, _ = _placed(layer == RECEIVED, first, last, start, position, bounds)
    number, owner = _placed(layer == LEDGER, first, last, start, position, bounds)
    whose = np.where(owner == NONE, NONE, producer[owner]) if len(owner) else owner
    highest = _highest(runs, int(runs.producer.max(initial=NONE)) + 2)
    late = _given_late(given, _least(runs)) | _written_late(number, whose, np.diff(bounds), highest)
    outcome, reason, expected, times = _judge(cover, sides)
    marks = np.where(late & (times > 0), REORDERED_BIT, 0)
    marks |= np.where(expected, EXPECTED_BIT, 0)
    marks |= np.where(times > 1, DUPLICATED_BIT, 0)
    marks |= np.where(cover[LEDGER] > 1, TWICE_BIT, 0)
    marks |= np.where(cover[RECORD] > 0, IN_LOG_BIT, 0)
    marks |= np.where(cover[SERVED] > 0, SERVED_BIT, 0)
    segments = Segments(bounds[:-1], bounds[1:], outcome, reason, marks, times, whose)
    return _joined(segments, cover[RANGE] > 0)


def _cover(layer: Any, first: Any, last: Any, count: int) -> Any:
    """How many runs of each layer lie over each segment."""
    steps: Any = np.zeros((LAYERS, count + 1), np.int64)
    np.add.at(steps, (layer, first), 1)
    np.add.at(steps, (layer, last), -1)
    return np.cumsum(steps, axis=1)[:, :count]


def _placed(mine: Any, first: Any, last: Any, start: Any, position: Any, bounds: Any) -> tuple[Any, Any]:
    """For each segment the position of its first offset by the run that came first, and which run that is.

    Positions grow by one with each record: of two runs over the same offsets the same one comes first everywhere.
    """
    which = np.flatnonzero(mine)
    order = which[np.argsort(np.where(position[which] < 0, _ENDLESS, position[which] - start[which]), kind="stable")]
    owner = _first_cover(first[order], last[order], max(len(bounds) - 1, 0))
    if not len(order):
        return owner, owner
    run = np.where(owner == NONE, 0, order[owner])
    at = np.where((owner == NONE) | (position[run] < 0), NONE, position[run] + bounds[:-1] - start[run])
    return at, np.where(owner == NONE, NONE, run)


@njit(cache=True, nogil=True)
def _first_cover(first: Any, last: Any, count: Any) -> Any:
    """The first of these runs over each segment; -1 for none. `free` leads to the next segment that has none yet."""
    owner = np.full(count, -1, np.int64)
    free = np.arange(count + 1)
    for run in range(first.size):
        at = first[run]
        while True:
            top = at
            while free[top] != top:
                top = free[top]
            while free[at] != at:  # the next search is shorter
                following = free[at]
                free[at] = top
                at = following
            at = top
            if at >= last[run]:
                break
            owner[at] = run
            free[at] = at + 1
    return owner


def _least(runs: Runs) -> int:
    return int(runs.position[runs.layer == LATER].min(initial=_ENDLESS))


def _highest(runs: Runs, count: int) -> Any:
    """By producer, with NONE as the last."""
    highest: Any = np.full(count, -1, np.int64)
    earlier = runs.layer == EARLIER
    np.maximum.at(highest, runs.producer[earlier], runs.position[earlier])
    return highest


@njit(cache=True, nogil=True)
def _given_late(given: Any, least: Any) -> Any:
    """Whether something with a higher offset was given before."""
    late = np.zeros(given.size, np.bool_)
    for step in range(given.size):
        at = given.size - 1 - step
        if given[at] >= 0:
            late[at] = least < given[at]
            least = min(least, given[at])
    return late


@njit(cache=True, nogil=True)
def _written_late(number: Any, producer: Any, size: Any, highest: Any) -> Any:
    """Whether something that its producer sent later has a lower offset."""
    late = np.zeros(number.size, np.bool_)
    for at in range(number.size):
        if number[at] >= 0:
            whose = producer[at]
            late[at] = number[at] < highest[whose]
            highest[whose] = max(highest[whose], number[at] + size[at] - 1)
    return late


def _judge(cover: Any, sides: Sides) -> tuple[Any, Any, Any, Any]:
    """Outcome, reason, whether it was expected, and how often it was seen, for each segment."""
    is_there = cover[RECORD] > 0
    times = cover[RECEIVED] if sides.has_received else cover[RECORD]
    seen = times > 0
    has_gone = (cover[RETENTION] > 0) | (cover[COMPACTION] > 0)
    if sides.has_ledger:
        expected = cover[LEDGER] > 0
    elif sides.has_log and sides.has_received:
        expected = is_there | (seen & has_gone)  # it was received while it was still there
    else:
        expected = cover[RANGE] > 0
    # What the log has can only be late; for what it has not, there may be a reason.
    explains = cover[MARKER:LAYERS] > 0
    explains[: WAITING - MARKER] &= ~is_there
    explains[WAITING - MARKER] &= is_there
    is_explained = explains.any(axis=0) & ~seen
    reason = np.where(is_explained, explains.argmax(axis=0) + MARKER, NONE)
    outcome = np.full(seen.size, UNKNOWN, np.int64)
    outcome[~expected & (seen | is_there)] = UNEXPECTED
    outcome[expected & ~seen] = LOST
    outcome[is_explained & (expected | ~is_there)] = EXPLAINED
    outcome[expected & seen] = FOUND
    reason = np.where(outcome == EXPLAINED, reason, NONE)
    return outcome, reason, expected, times


def _joined(segments: Segments, inside: Any) -> Segments:
    """Neighbours of which the same is said as one; what is outside the range is left out."""
    start, end, *columns = (getattr(segments, name)[inside] for name in Segments.__dataclass_fields__)
    if not len(start):
        return Segments(start, end, *columns)
    differs = start[1:] != end[:-1]
    for column in columns:
        differs |= column[1:] != column[:-1]
    firsts = np.concatenate(([0], np.flatnonzero(differs) + 1))
    lasts = np.concatenate((firsts[1:] - 1, [len(start) - 1]))
    return Segments(start[firsts], end[lasts], *(column[firsts] for column in columns))
